/** Puts the page together: where its events come from, the time bar, the views, links and keys. */

import { Beside } from "watch/beside.js";
import { el, show, svg } from "watch/dom.js";
import { read, write } from "watch/link.js";
import { ask, Live } from "watch/live.js";
import { clockTime, seconds } from "watch/names.js";
import * as panel from "watch/panel.js";
import { Player, SPEEDS } from "watch/player.js";
import { Large } from "watch/large.js";
import { parse } from "watch/recording.js";
import { cutsAt, NAMES } from "watch/state.js";
import { Tail } from "watch/tail.js";
import { Timeline } from "watch/timeline.js";
import { LANGUAGES, translator } from "watch/words.js";
import * as cluster from "watch/views/cluster.js";
import * as queues from "watch/views/queues.js";
import * as files from "watch/views/files.js";
import * as offsets from "watch/views/offsets.js";
import * as time from "watch/views/time.js";
import * as breaking from "watch/views/break.js";
import * as messages from "watch/views/messages.js";

const VIEWS = [cluster, queues, files, offsets, time, breaking, messages];
const POLL_MS = 1500;
const LIVE_EVENTS_KEPT = 200_000;

class Page {
  constructor(root) {
    const link = read(location.hash);
    this.root = root;
    this.timeline = new Timeline();
    this.player = new Player(this.timeline, () => this.redraw());
    this.isLive = false;
    this.name = "";
    this.badge = "loading";
    this.isComing = false;
    this.problems = [];
    this.rules = {};
    this.faults = null;
    this.clock = null;
    this.said = "";
    /** The dead letters that were asked for: `group`, `messages`. */
    this.letters = null;
    /** Messages of a topic as they come; null before one is chosen. */
    this.tail = null;
    /** The one of them whose body is shown. */
    this.message = "";
    /** What stands where a topic is chosen; null before anybody typed. */
    this.typed = null;
    this.large = null;
    /** group and queue -> its lags of the last seconds. */
    this.lags = new Map();
    /** A second recording, or null. */
    this.beside = null;
    this.view = VIEWS.some((each) => each.name === link.view) ? link.view : "cluster";
    this.wanted = link;
    this.selected = link.select ?? "";
    const chosen = link.lang ?? (navigator.language?.startsWith("zh") ? "zh" : "en");
    this.setLanguage(chosen in LANGUAGES ? chosen : "en");
    this.pending = false;
  }

  setLanguage(language) {
    this.language = language;
    this.t = translator(language);
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  }

  // -- where events come from ----------------------------------------------------------------

  async open() {
    this.build();
    const inside = document.getElementById("recording");
    if (inside) {
      const source = JSON.parse(document.getElementById("source").textContent);
      const second = document.getElementById("recording-beside");
      if (second) this.beside = new Beside(this, parse(second.textContent), source.line);
      this.take(parse(inside.textContent), source.name);
      return;
    }
    const source = await ask("GET", "/watch/source");
    this.name = source.name;
    if (source.kind === "live") await this.openLive();
    else await this.openServed(source);
  }

  async openServed(source) {
    this.build();
    try {
      if (source.bytes <= source.whole_bytes) {
        this.take(parse(await (await fetch("/watch/recording")).text()), source.name);
        return;
      }
      this.large = await Large.open(source);
      this.take(this.large.overview, source.name);
      this.problems.push({ key: "problem_large" });
    } catch (error) {
      this.problems.push({ key: "problem_fetch", why: error.message });
    }
    this.build();
  }

  async openLive() {
    this.isLive = true;
    this.badge = "live";
    this.isComing = true;
    this.declare(await ask("GET", "/watch/rules"));
    let before = [];  // what comes before the answer about what is there already
    const live = new Live(NAMES, (events) => (before ? before.push(...events) : this.more(events)), (state) => {
      this.badge = state === "open" ? "live" : "lost";
      this.build();
    });
    try {
      this.more(await ask("GET", "/watch/now"), true);
    } finally {
      this.isComing = false;
      this.more(before);
      before = null;
    }
    addEventListener("pagehide", () => {
      live.close();
      this.tail?.run(false);
    });
    this.player.follow();
    this.showMessages(this.wanted.topic);
    this.build();
    this.poll();
  }

  more(events, loaded = false) {
    this.timeline.add(events, loaded);
    this.timeline.trim(LIVE_EVENTS_KEPT);
    if (this.player.following) this.player.at_ms = this.timeline.ended_ms;
    this.redraw();
  }

  take({ header, events, problems }, name) {
    this.name = typeof header.cluster === "string" && header.cluster ? `${header.cluster} · ${name}` : name;
    this.badge = "recorded";
    this.problems = problems;
    this.declare(Object.fromEntries((Array.isArray(header.events) ? header.events : []).map((each) => [each?.name, each?.rule])));
    this.timeline.load({ header, events });
    const { dropped, damaged } = this.timeline.newest;
    if (dropped) this.problems.push({ key: "problem_dropped", count: dropped });
    if (damaged) this.problems.push({ key: "problem_damaged", count: damaged });
    this.player.at_ms = this.wanted.t === undefined ? this.timeline.began_ms : this.timeline.began_ms + Number(this.wanted.t) * 1000;
    if (SPEEDS.includes(Number(this.wanted.speed))) this.player.speed = Number(this.wanted.speed);
    this.player.seek(this.player.at_ms);
    this.build();
  }

  declare(rules) {
    this.rules = rules;
  }

  /** What the control address knows and events do not tell: deadlines and fault rules. */
  async poll() {
    if (!document.hidden) {
      try {
        // The answer asks every role: while one is down that is a 502, which browsers log.
        const allRun = Object.values(this.state?.roles ?? {}).every((each) => each.state === "running");
        if (allRun || this.view === "time") this.clock = await ask("GET", "/clock").catch(() => this.clock);
        this.faults = await ask("GET", "/faults");
        await this.readAlong();
        this.redraw();
      } catch (error) {
        this.said = error.message;
      }
    }
    setTimeout(() => this.poll(), POLL_MS);
  }

  async askFor(button) {
    if (button.getAttribute("aria-disabled") === "true") return;
    const { ask: path, method = "POST", body } = button.dataset;
    try {
      const answer = await ask(method, `/${path}`, body === undefined ? (method === "POST" ? {} : undefined) : JSON.parse(body));
      if (path.startsWith("clock")) this.clock = await ask("GET", "/clock");
      this.faults = await ask("GET", "/faults");
      this.said = this.t("done", { what: answer.done ?? answer.id ?? button.textContent });
    } catch (error) {
      this.said = this.t("refused", { why: error.message });
    }
    this.redraw();
  }

  async send(form) {
    const { topic, body, tag } = Object.fromEntries(new FormData(form));
    try {
      const stored = await ask("POST", "/messages", { topic, body, ...(tag ? { tag } : {}) });
      this.said = this.t("done", { what: `${stored.broker ?? topic}/${stored.queue ?? ""} ${stored.offset ?? ""}`.trim() });
    } catch (error) {
      this.said = this.t("refused", { why: error.message });
    }
    this.redraw();
  }

  async showLetters(form) {
    const { group } = Object.fromEntries(new FormData(form));
    try {
      this.letters = { group, messages: await ask("GET", `/groups/${encodeURIComponent(group)}/dead-letters`) };
      this.said = "";
    } catch (error) {
      this.said = this.t("refused", { why: error.message });
    }
    this.redraw();
  }

  showMessages(topic) {
    if (!this.isLive || !topic) return;
    this.tail?.run(false);
    this.tail = new Tail(topic, () => this.redraw());
    this.message = "";
    this.typed = topic;
    this.readTail();
    this.redraw();
  }

  /** Messages are read while they are looked at. */
  readTail() {
    this.tail?.run(this.view === "messages" && !document.hidden && !this.tail.isStopped);
  }

  async #storeBytes(key) {
    const [broker, offset] = key.split(" ");
    try {
      return await ask("GET", `/watch/store?broker=${encodeURIComponent(broker)}&offset=${offset}`);
    } catch (error) {
      return { error: error.message };
    }
  }

  /** Bytes of a record, from the store of a running broker. */
  async readBytes(key) {
    const [broker, offset] = key.split(" ");
    this.record = key;
    this.records = { [key]: this.records?.[key] ?? this.state.stores[broker]?.records.find((each) => each.physical_offset === Number(offset)) };
    this.bytes = { ...this.bytes, [key]: await this.#storeBytes(key) };
    this.bytesRead = performance.now();
    this.redraw();
  }

  /** Whether the newest record of each broker is read from its store again and again. */
  get readsAlong() {
    return this.isLive && this.player.following && !this.record;
  }

  async readAlong() {
    if (!this.readsAlong || this.view !== "files") return;
    const newest = Object.entries(this.state.stores).map(([broker, { records }]) => [broker, records.at(-1)]).filter(([, record]) => record);
    const found = await Promise.all(newest.map(async ([broker, { physical_offset: at }]) => [`${broker} ${at}`, await this.#storeBytes(`${broker} ${at}`)]));
    if (!this.readsAlong) return;
    this.tails = Object.fromEntries(newest);
    this.bytes = Object.fromEntries(found);
    this.bytesRead = performance.now();
    this.redraw();
  }

  // -- the frame of the page -----------------------------------------------------------------

  build() {
    const { t } = this;
    document.title = `${t("title")} ${this.name}`;
    this.content = el("div", { id: "view", role: "tabpanel", tabindex: -1, "aria-labelledby": `tab-${this.view}` });
    this.side = el("aside", { "aria-label": t("selected") });
    this.verdict = el("p", { class: "warning", role: "alert", hidden: true });
    const tabs = VIEWS.map(({ name }) => el("button", { id: `tab-${name}`, role: "tab", "aria-selected": name === this.view ? "true" : "false",
      "aria-controls": "view", tabindex: name === this.view ? 0 : -1, "data-view": name, "data-key": `tab ${name}` }, t(`view_${name}`)));
    show(this.root,
      el("header", { class: "bar" },
        el("div", { class: "brand" }, logo(), el("h1", null, t("title"))),
        el("span", { class: `badge ${this.badge === "live" ? "live" : ""}`, role: "status" }, t(this.badge)),
        el("span", { class: "source" }, this.name),
        el("div", { class: "spring" }),
        el("nav", { class: "tabs", role: "tablist", "aria-label": t("views") }, tabs),
        el("button", { class: "button", "data-language": this.language === "zh" ? "en" : "zh", "data-key": "language", lang: this.language === "zh" ? "en" : "zh" }, t("language"))),
      this.problems.map((each) => each.key === "problem_large"
        ? el("p", { class: "info", role: "status" }, t(each.key)) : el("p", { class: "warning", role: "alert" }, t(each.key, each))),
      this.verdict,
      el("main", { class: this.beside && "beside" }, this.beside?.columns(this.content, t) ?? this.content, this.side),
      this.timeBar());
    const tab = document.getElementById(`tab-${this.view}`), bar = tab.parentElement;
    bar.scrollLeft = tab.offsetLeft - bar.offsetLeft - (bar.clientWidth - tab.offsetWidth) / 2;
    this.drawTrack();
    this.draw();
  }

  timeBar() {
    const { t, player } = this;
    this.playButton = el("button", { class: "button main", "data-do": "play", "data-key": "play" }, t("play"));
    this.range = el("input", { type: "range", min: 0, max: 1000, step: 1, "aria-label": t("scrub"), "data-key": "scrub" });
    this.range.addEventListener("input", () => {
      player.playing = false;
      const length = this.timeline.ended_ms - this.timeline.began_ms;
      player.seek(this.timeline.began_ms + (Number(this.range.value) / Number(this.range.max)) * length);
    });
    this.track = el("canvas", { "aria-hidden": "true" });
    this.time = el("div", { class: "clock number" });
    return el("footer", { class: "time", "aria-label": t("view_time") },
      el("div", { class: "keys" },
        el("button", { class: "button", "data-do": "earlier", "aria-label": t("earlier"), title: t("earlier"), "data-key": "earlier" }, icon("M4 3 v10 M13 3 L6 8 L13 13 Z")),
        this.playButton,
        el("button", { class: "button", "data-do": "later", "aria-label": t("later"), title: t("later"), "data-key": "later" }, icon("M12 3 v10 M3 3 L10 8 L3 13 Z")),
        el("select", { class: "button", "aria-label": t("speed"), "data-key": "speed", onchange: (event) => { player.speed = Number(event.target.value); this.redraw(); } },
          SPEEDS.map((each) => el("option", { value: each, selected: each === player.speed }, `×${each}`))),
        this.isLive && el("button", { class: "button", "data-do": "follow", "data-key": "follow" }, t("follow"))),
      el("div", { class: "track" }, this.track, this.range), this.time);
  }

  /** How much happened when, behind the slider. */
  drawTrack() {
    const width = Math.max(100, Math.floor(this.track.clientWidth || 600)), height = 24;
    const bins = this.timeline.density(Math.floor(width / 3));
    const most = Math.max(...bins, 1);
    this.track.width = width;
    this.track.height = height;
    const drawing = this.track.getContext("2d");
    drawing.fillStyle = getComputedStyle(document.body).getPropertyValue("--edge") || "#99a";
    bins.forEach((each, at) => {
      const tall = each ? Math.max(2, (Math.log1p(each) / Math.log1p(most)) * height) : 0;
      drawing.fillRect(at * 3, height - tall, 2, tall);
    });
    this.drawnEvents = this.timeline.events.length;
    this.drawnAt = performance.now();
  }

  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame((now) => {
      this.pending = false;
      this.player.move(now);
      this.draw();
      if (this.player.playing) this.redraw();
    });
  }

  draw() {
    const { timeline, player, t } = this;
    if (this.large) this.large.wantedAt(player.at_ms, timeline, player.playing, () => this.redraw());
    this.state = timeline.at(player.at_ms);
    if (this.large) this.state = this.large.detailed(this.state, player.at_ms);
    this.selected = panel.resolve(this.state, this.selected);
    this.cut = this.cutOff();
    const view = VIEWS.find((each) => each.name === this.view);
    view.draw(this.content, this);
    this.beside?.draw(view, player.at_ms);
    this.verdict.hidden = !this.state.violated;
    if (this.state.violated) this.verdict.textContent = t("violated", { words: this.state.violated });
    panel.draw(this.side, this);
    const length = Math.max(timeline.ended_ms - timeline.began_ms, 1);
    this.range.max = Math.min(Math.max(Math.round(length / 20), 200), 20_000);
    this.range.value = Math.round(((player.at_ms - timeline.began_ms) / length) * Number(this.range.max));
    this.range.setAttribute("aria-valuetext", t("at", { s: seconds(player.at_ms - timeline.began_ms) }));
    const playing = player.playing || player.following;
    this.playButton.textContent = playing ? t("pause") : t("play");
    const [now, ms = ""] = clockTime(this.state.at_ms).split(/(?=\.\d{3}$)/);
    this.time.replaceChildren(
      el("div", null, `${t("at", { s: seconds(player.at_ms - timeline.began_ms) })} ${t("of", { s: seconds(Math.max(length, player.at_ms - timeline.began_ms)) })}`),
      el("div", { class: "note" }, el("span", { class: "wide" }, `${t("virtual")} `), now, el("span", { class: "wide" }, ms), this.clockWords()));
    if (timeline.events.length !== this.drawnEvents && performance.now() - this.drawnAt > 1000) this.drawTrack();
    if (!player.playing) this.link();
    if (player.following) this.nextFrame();
  }

  /** Whether the cluster's clock runs, and how fast; nothing of a recording. */
  clockWords() {
    if (!this.isLive || !this.clock) return "";
    const { kind, speed } = this.clock;
    if (kind === "manual" && speed === 0) return ` · ${this.t("clock_stands")}`;
    return ` · ${speed === 1 ? this.t("clock_runs") : this.t("clock_speed", { speed })}`;
  }

  /** While it follows a live feed, marks go on travelling between events. */
  nextFrame() {
    const { player, timeline } = this;
    const newest = timeline.ended_ms;
    if (this.newest !== newest) {
      this.newest = newest;
      this.newestAt = performance.now();
    }
    const behind = Math.min(performance.now() - this.newestAt, 1500);
    player.at_ms = newest + behind;
    if (behind < 1500) this.redraw();
  }

  /** Who is cut off, from whom: name -> names, none for all others. */
  cutOff() {
    const found = new Map();
    this.cuts = cutsAt(this.state, this.player.at_ms);
    for (const { who, other } of this.cuts) {
      found.set(who, [...(found.get(who) ?? []), other].filter(Boolean));
      if (other in this.state.roles || other in this.state.clients) found.set(other, [...(found.get(other) ?? []), who]);
    }
    return found;
  }

  link() {
    const { player } = this;
    const live = this.isLive && player.following;
    const address = write({ view: this.view, t: live ? "" : (player.seconds).toFixed(2).replace(/\.?0+$/, ""), select: this.selected,
      speed: player.speed === 1 ? "" : player.speed, topic: this.view === "messages" ? this.tail?.topic : "", lang: this.language === "en" ? "" : this.language });
    if (this.linked === address) return;
    this.linked = address;
    clearTimeout(this.linking);
    this.linking = setTimeout(() => {
      if (location.hash !== address) history.replaceState(null, "", address);
    }, 120);  // browsers limit how often
  }

  // -- what people do ------------------------------------------------------------------------

  choose(view) {
    this.view = view;
    this.content.removeAttribute("data-drawn");
    this.build();
    this.readAlong();
    this.readTail();
    if (this.isLive && view === "time") ask("GET", "/clock").then((clock) => { this.clock = clock; this.redraw(); }, () => {});
  }

  press(target) {
    const at = (name) => target.closest(`[data-${name}]`);
    const view = at("view"), language = at("language"), asked = at("ask"), seek = at("seek"), select = at("select"), act = at("do"), record = at("record"), bytes = at("bytes"), field = at("field"), message = at("message");
    if (view) this.choose(view.dataset.view);
    else if (language) {
      this.setLanguage(language.dataset.language);
      this.build();
    } else if (asked) this.askFor(asked);
    else if (act) this.act(act.dataset.do);
    else if (bytes) this.readBytes(bytes.dataset.bytes);
    else if (field) {
      this.field = this.field === field.dataset.field ? "" : field.dataset.field;
      this.redraw();
    } else if (message) {
      this.message = this.message === message.dataset.message ? "" : message.dataset.message;
      this.redraw();
    } else if (record) {
      this.record = record.dataset.record;
      const [broker, offset] = this.record.split(" ");
      // One that is drawn may have left the list of the newest meanwhile: its bytes are there all the same.
      const found = this.state.stores[broker]?.records.find((each) => each.physical_offset === Number(offset));
      this.records = { [this.record]: found ?? { physical_offset: Number(offset) } };
      if (this.isLive) this.readBytes(this.record);
      this.redraw();
    } else if (seek) {
      this.player.playing = false;
      this.player.seek(Number(seek.dataset.seek));
    } else if (select) {
      this.selected = select.dataset.select;
      this.redraw();
    } else return false;
    return true;
  }

  act(what) {
    const { player } = this;
    if (what === "play") (player.playing || player.following ? player.pause() : player.play());
    else if (what === "follow") player.follow();
    else if (what === "tail") {
      this.record = "";
      player.follow();
      this.readAlong();
    }
    else if (what === "stop-tail") {
      this.tail.isStopped = !this.tail.isStopped;
      this.readTail();
      this.redraw();
    }
    else player.step(what === "later" ? 1 : -1);
  }

  listen() {
    // A frame may replace what was pressed before the button is released, so there may be no click.
    this.root.addEventListener("pointerdown", (event) => {
      this.pressed = event.button === 0 ? event.target : null;
      this.taken = false;
      if (this.pressed?.closest?.("[data-select], [data-seek], [data-record], [data-field], [data-bytes], [data-ask], [data-message]")) this.taken = this.press(this.pressed);
    });
    this.root.addEventListener("click", (event) => {
      if (this.taken && event.detail > 0) this.taken = false;
      else this.press(event.target);
    });
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      if (event.target.dataset.form === "letters") this.showLetters(event.target);
      else if (event.target.dataset.form === "tail") this.showMessages(new FormData(event.target).get("topic").trim());
      else this.send(event.target);
    });
    this.root.addEventListener("scroll", (event) => {
      if (event.target.dataset?.window === undefined) return;
      event.target.closest("[data-drawn]")?.removeAttribute("data-drawn");
      this.redraw();
    }, true);
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => {
      this.linked = null;
      const link = read(location.hash);
      if (link.select !== undefined) this.selected = link.select;
      if (link.view && VIEWS.some((each) => each.name === link.view)) this.view = link.view;
      if (link.t !== undefined) this.player.seek(this.timeline.began_ms + Number(link.t) * 1000);
      this.build();
      if (link.topic && link.topic !== this.tail?.topic) this.showMessages(link.topic);
      this.readTail();
    });
    document.addEventListener("visibilitychange", () => this.readTail());
    addEventListener("resize", () => {
      this.drawTrack();
      this.redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.build());
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { target } = event;
    if (target.getAttribute?.("role") === "tab" && ["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) {
      const at = VIEWS.findIndex((each) => each.name === this.view);
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: VIEWS.length - 1 }[event.key];
      this.choose(VIEWS[(to + VIEWS.length) % VIEWS.length].name);
      document.getElementById(`tab-${this.view}`).focus();
      event.preventDefault();
      return;
    }
    if (target.matches?.("input, select, textarea")) return;
    const pressable = target.closest?.("button, [role=button]");
    if (pressable && (event.key === "Enter" || event.key === " ")) {
      if (pressable.tagName !== "BUTTON") {
        this.press(pressable);
        event.preventDefault();
      }
      return;
    }
    const number = Number(event.key);
    if (number >= 1 && number <= VIEWS.length) this.choose(VIEWS[number - 1].name);
    else if (event.key === " ") this.act("play");
    else if (event.key === "ArrowRight") this.act("later");
    else if (event.key === "ArrowLeft") this.act("earlier");
    else if (event.key === "Escape") {
      this.selected = "";
      this.redraw();
    } else return;
    event.preventDefault();
  }
}

const icon = (path) => svg("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": true },
  svg("path", { d: path, fill: "currentcolor", stroke: "currentcolor", "stroke-width": 1.6, "stroke-linejoin": "round" }));

function logo() {
  return svg("svg", { width: 30, height: 30, viewBox: "0 0 30 30", "aria-hidden": true },
    svg("defs", null, svg("pattern", { id: "hatch", width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("rect", { width: 8, height: 8, fill: "var(--warn-ground)" }), svg("rect", { width: 2, height: 8, fill: "var(--line)" }))),
    svg("rect", { x: 1, y: 1, width: 28, height: 28, rx: 8, fill: "var(--accent)" }),
    [8, 15, 22].map((y, at) => svg("rect", { x: 7, y: y - 2, width: [16, 10, 13][at], height: 4, rx: 2, fill: "var(--on-accent)" })));
}

const page = new Page(document.getElementById("page"));
page.listen();
page.open().catch((error) => {
  page.problems.push({ key: "problem_fetch", why: error.message });
  page.build();
});
globalThis.pocketmqWatch = page;  // for tests and for the curious
