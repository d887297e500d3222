/** Who is there, what travels, and who knows what. */

import { el, items, svg, table, unbroken, update } from "watch/dom.js";
import { colour, count, short, UNKNOWN } from "watch/names.js";
import { troubleWords } from "watch/sentences.js";
import { counted } from "watch/words.js";
import { brokerNameOf, brokerOf, conflicts, journey, listedAs, ownersOf, shortQueue, topicOf, troublesAt } from "watch/state.js";

const MOST_MARKS = 160;
const TRAVEL_MS = 620;
/** Real ms that a mark takes from one end to the other. */

const SYMBOL = { frozen: "❄", ended: "✕", gone: "✕", silent: "…", left: "✕", cut: "✂" };
const KINDS = ["sent", "pulled", "told", "registered", "committed"];

export const name = "cluster";

/** Where each thing stands. Wide: producers, brokers, consumers from left to right; narrow: in rows. */
export function layout(state, width) {
  const named = (kind) => Object.keys(state.roles).filter((each) => state.roles[each].kind === kind).sort();
  const clients = (kind) => Object.keys(state.clients).filter((each) => state.clients[each].kind === kind
    && !(state.clients[each].state === "left")).sort();
  const bands = { top: [...named("nameserver"), ...named("controller")], producers: clients("producer"),
    brokers: named("broker"), consumers: clients("consumer"), proxies: named("proxy") };
  const boxes = {};
  const wide = width >= 700;
  const lines = Math.min(Math.max(...bands.brokers.map((each) => topicsOf(state, each).length), 1), 2);
  const brokerHeight = 54 + lines * 34;
  const place = (id, x, y, w, h) => { boxes[id] = { x, y, w, h }; };
  const gap = wide ? 14 : 22;  // where the screen is narrow, links run between the boxes
  const row = (ids, y, w, h) => {
    const fits = Math.max(1, Math.floor((width - 8) / (w + 14)));
    ids.forEach((id, at) => {
      const line = Math.floor(at / fits), here = Math.min(fits, ids.length - line * fits);
      const left = (width - here * w - (here - 1) * gap) / 2;
      place(id, left + (at % fits) * (w + gap), y + line * (h + gap), w, h);
    });
    return ids.length ? y + Math.ceil(ids.length / fits) * (h + gap) + 26 : y;
  };
  if (!wide) {
    let y = row(bands.top, 6, Math.min(160, width / 2 - 22), 52);
    y = row(bands.producers, y, Math.min(160, width / 2 - 22), 52);
    y = row(bands.brokers, y, Math.min(280, width - 12), brokerHeight);
    y = row(bands.proxies, y, Math.min(160, width / 2 - 22), 52);
    y = row(bands.consumers, y, Math.min(160, width / 2 - 22), 52);
    return { boxes, bands, wide, height: Math.max(y, 120) };
  }
  const side = Math.min(190, width * 0.24), middle = Math.min(280, width * 0.36);
  row(bands.top, 8, Math.min(190, side), 56);
  const above = bands.top.length ? 118 : 14;
  const column = (ids, x, w, h, gap, tallest) => {
    const total = ids.length * (h + gap) - gap;
    ids.forEach((id, at) => place(id, x, above + Math.max(0, (tallest - total) / 2) + at * (h + gap), w, h));
  };
  const heights = [bands.producers.length * 74, bands.brokers.length * (brokerHeight + 24), bands.consumers.length * 74];
  const tallest = Math.max(...heights, 120) - 18;
  column(bands.producers, 4, side, 56, 18, tallest);
  column(bands.brokers, (width - middle) / 2, middle, brokerHeight, 24, tallest);
  column(bands.consumers, width - side - 4, side, 56, 18, tallest);
  const below = row(bands.proxies, above + tallest + 40, Math.min(190, side), 56);  // SDKs reach brokers by them
  return { boxes, bands, wide, height: bands.proxies.length ? below : above + tallest + 14 };
}

/** The topics that users made, of which a broker has queues. */
function topicsOf(state, broker) {
  return [...new Set(queuesOf(state, broker).map(topicOf))].filter((each) => !own(each)).sort();
}

/** The queues of a broker that anything was told of. */
export function queuesOf(state, broker) {
  const told = [state.queues, ...Object.values(state.groups).map((group) => group.queues)].flatMap(Object.keys);
  return [...new Set(told)].filter((each) => brokerOf(each) === brokerNameOf(state, broker));
}

const centre = (box) => ({ x: box.x + box.w / 2, y: box.y + box.h / 2 });

/** A point on the curve between two things: 0 at the first, 1 at the second. */
function curve(from, to, wide) {
  const one = centre(from), other = centre(to);
  const sideways = wide && Math.abs(one.x - other.x) > from.w / 2 + 40;
  const begin = sideways ? { x: one.x + Math.sign(other.x - one.x) * from.w / 2, y: one.y }
    : { x: one.x, y: one.y + Math.sign(other.y - one.y) * from.h / 2 };
  const end = sideways ? { x: other.x - Math.sign(other.x - one.x) * to.w / 2, y: other.y }
    : { x: other.x, y: other.y - Math.sign(other.y - one.y) * to.h / 2 };
  const bend = sideways ? { x: (end.x - begin.x) / 2, y: 0 } : { x: 0, y: (end.y - begin.y) / 2 };
  return bezier(begin, { x: begin.x + bend.x, y: begin.y + bend.y }, { x: end.x - bend.x, y: end.y - bend.y }, end);
}

function bezier(begin, c1, c2, end) {
  return {
    path: `M${begin.x},${begin.y} C${c1.x},${c1.y} ${c2.x},${c2.y} ${end.x},${end.y}`,
    at(s) {
      const r = 1 - s, a = r * r * r, b = 3 * r * r * s, c = 3 * r * s * s, d = s * s * s;
      return { x: a * begin.x + b * c1.x + c * c2.x + d * end.x, y: a * begin.y + b * c1.y + c * c2.y + d * end.y };
    },
  };
}

function forgottenBy(state, broker) {
  return Object.keys(state.forgot).filter((each) => state.forgot[each][listedAs(state, broker)]).sort();
}

function thing(page, id, box, words, extra = []) {
  const { state: lookup } = words;
  const chosen = page.selected === id;
  const shown = id.includes("@") ? id.slice(id.indexOf("@") + 1) : id;
  const line = begun(words.line, box.w - 22, words.bad ? 7 : 6.2);
  const isShortened = shown !== id || fitted(shown, box.w - 34, 7.6) !== shown;
  return svg("g", {
    class: `thing ${lookup} ${chosen ? "selected" : ""}`, tabindex: 0, role: "button", "aria-pressed": chosen,
    "data-select": id, "data-key": `thing ${id}`, transform: `translate(${box.x.toFixed(1)},${box.y.toFixed(1)})`,
    "aria-label": `${words.kind} ${id}, ${words.full ?? words.line}`,
  },
  svg("rect", { class: "body", width: box.w, height: box.h, rx: 10 }),
  words.colour && svg("rect", { x: 0, y: 8, width: 6, height: box.h - 16, rx: 3, fill: words.colour }),
  svg("text", { x: 16, y: 23, "font-weight": 650 }, fitted(shown, box.w - 34, 7.6)),
  svg("text", { class: `soft state ${words.bad ? "bad" : ""}`, x: 16, y: 42 }, line, line !== (words.full ?? words.line) && svg("title", null, words.full ?? words.line)),
  SYMBOL[lookup] && svg("text", { x: box.w - 22, y: 24, class: "bad state" }, SYMBOL[lookup]),
  extra,
  // Drawn above all else of the box while it has the focus or the mouse.
  isShortened && whole(id, box, Math.max(300, Math.floor(page.content.clientWidth) - 34)));
}

/** Characters of an id that are shown in full at most. */
const MOST_SHOWN = 512;

/** A long name in full, in as many lines as the picture has room for. */
function whole(id, box, width) {
  const fits = Math.max(12, Math.floor((width - 16) / 8.2));
  // Clients choose their ids: any character, any length. `[^]` is one that a line may end with, too.
  const lines = id.slice(0, MOST_SHOWN).match(new RegExp(`[^]{1,${fits}}`, "gu")) ?? [];
  const longest = Math.min(id.length, fits) * 8.2;
  const x = Math.min(16, width - box.x - longest - 8);
  return svg("text", { class: "whole" }, lines.map((line, at) => svg("tspan", { x, y: 23 + at * 17 }, line)));
}

/** As much of a sentence as fits. */
function begun(text, width, each) {
  const most = Math.max(4, Math.floor(width / each));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** A name that fits: its begin and its end. */
function fitted(text, width, each) {
  const most = Math.max(4, Math.floor(width / each));
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 2);  // names differ at their ends as often as at their begins
  return `${text.slice(0, most - 1 - end)}…${text.slice(text.length - end)}`;
}

/** The other side of a cut link, in words. */
const sideWords = (other, t) => ({ clients: t("all_clients"), others: t("other_roles"), "": t("all_others") }[other] ?? short(other));

export function cutWords({ cut, t }, id) {
  const others = cut.get(id).map((each) => sideWords(each, t));
  return others.length ? t("state_cut_from", { who: others.join(", ") }) : t("state_cut");
}

function brokerWords(page, id) {
  const { state, t } = page;
  const role = state.roles[id];
  const forgotten = role.kind === "broker" ? forgottenBy(state, id) : [];
  let line = t(`state_${role.state}`);
  if (page.cut?.has(id)) line = cutWords(page, id);
  const who = t("expired_at", { who: forgotten.map(short).join(", ") });
  const full = `${line} · ${who}`;  // for the box it may be too long
  if (forgotten.length) line += ` · ${forgotten.length > 1 ? t("expired_at_several", { n: forgotten.length }) : who}`;
  else if (role.mastery) line += ` · ${role.mastery}`;
  const lookup = role.state === "running" && page.cut?.has(id) ? "cut" : role.state;
  return { kind: t(`kind_${role.kind}`), state: lookup, line, full: forgotten.length ? full : line, bad: lookup !== "running" || forgotten.length > 0 };
}

function clientWords(page, id) {
  const { state, t } = page;
  const found = state.clients[id];
  const parts = page.cut?.has(id) ? [cutWords(page, id)] : [];
  if (found.sdk) parts.push(found.sdk);
  if (found.state !== "running") parts.push(t(`state_${found.state}`));
  if (found.kind === "consumer") {
    const member = state.groups[found.group]?.members[id];
    if (found.proxy) parts.push(found.group);  // it owns no queues
    else parts.push(`${found.group} · ${member?.unknown ? `${UNKNOWN} ${t("queues")}` : counted(member?.queues.length ?? 0, t)}`);
  } else {
    parts.push(found.status || t("kind_producer"));
  }
  const isCut = found.state === "running" && page.cut?.has(id);
  return { kind: t(`kind_${found.kind}`), state: isCut ? "cut" : found.state, line: parts.join(" · "), bad: isCut || found.state !== "running",
    colour: found.kind === "consumer" ? colour(id) : null };
}

/** The queues of a broker as small cells, in the colour of who owns them. */
function cells(page, broker, box) {
  const { state, t } = page;
  const mine = queuesOf(state, broker);
  const topics = topicsOf(state, broker).slice(0, 2);
  const found = [];
  topics.forEach((topic, line) => {
    const y = 54 + line * 31;
    const all = mine.filter((each) => topicOf(each) === topic).sort((a, b) => numberOf(a) - numberOf(b));
    const fits = Math.max(1, Math.floor((box.w - 96) / 30));
    found.push(svg("text", { class: "soft", x: 16, y: y + 15 }, fitted(topic, 66, 6.2)));
    all.slice(0, fits).forEach((queue, at) => {
      const groups = Object.values(state.groups).filter((group) => group.queues[queue]);
      const told = ownersOf(state, queue), owners = told ?? [];  // each group has its own
      const title = `${queue}: ${count(state.queues[queue]?.stored, state.queues[queue]?.least)} · ${told === null ? UNKNOWN : owners.map(short).join(", ") || t("no_owner")}`;
      found.push(svg("g", { class: "lane", "data-select": queue },
        svg("title", null, title),
        svg("rect", { x: 84 + at * 30, y, width: 27, height: 22, rx: 4, class: groups.some((group) => conflicts(group).several.includes(queue)) ? "several" : "",
          fill: owners.length ? colour(owners[0]) : "var(--ground)", stroke: "var(--edge)" }),
        svg("text", { x: 84 + at * 30 + 13.5, y: y + 15, "text-anchor": "middle", class: owners.length ? "dark" : "soft" },
          numberOf(queue))));
    });
    if (all.length > fits) found.push(svg("text", { class: "soft", x: 84 + fits * 30, y: y + 15 }, t("more_queues", { n: all.length - fits })));
  });
  return found;
}

/** Whether the link between two is cut: by a rule that names both, or one of them and all others. */
const isCut = (page, one, other) => page.cuts.some((cut) => [[one, other], [other, one]].some(([who, from]) =>
  cut.who === who && (cut.other === "" || cut.other === from || (cut.other === "others" && from in page.state.roles)
  || (cut.other === "clients" && page.state.clients[from]?.state === "running"))));

/** The way of a link, which does not lead behind the boxes that lie between its ends. */
function way(plan, one, other) {
  const [from, to] = [plan.boxes[one], plan.boxes[other]];
  if (!plan.wide) return between(from, to, Object.values(plan.boxes));
  return plan.bands.top.includes(other) ? aroundPath(one, other, plan) : curve(from, to, true);
}

const MARGIN = 7;
/** Px between a link and the box that it passes, at least. */

/** Where the screen is narrow: down or up through the rows between two boxes, where no box stands. */
function between(from, to, boxes) {
  if (from.y > to.y) return turned(between(to, from, boxes));
  const lines = new Map();
  for (const each of boxes) if (each.y > from.y && each.y < to.y) lines.set(each.y, [...(lines.get(each.y) ?? []), each]);
  const begin = centre(from).x, goal = centre(to).x;
  const detour = (x) => Math.abs(x - begin) + Math.abs(x - goal);
  const stops = [...lines.values()].map((line) => {
    const free = line.flatMap(({ x, w }) => [x - MARGIN, x + w + MARGIN]).concat(goal)
      .filter((x) => line.every((each) => x <= each.x - MARGIN || x >= each.x + each.w + MARGIN));
    const x = free.reduce((best, each) => (detour(each) < detour(best) ? each : best));
    return { x, top: line[0].y, bottom: line[0].y + line[0].h };
  }).sort((a, b) => a.top - b.top);
  if (!stops.length) return curve(from, to, false);
  const leave = port(from, stops[0].x, from.y + from.h), arrive = port(to, stops.at(-1).x, to.y);
  const points = [leave, ...stops.flatMap(({ x, top, bottom }) => [{ x, y: top }, { x, y: bottom }]), arrive];
  return joined(points.slice(1).map((end, at) => {
    const begin = points[at], half = (end.y - begin.y) / 2;
    return bezier(begin, begin.aside ? { x: end.x, y: begin.y } : { x: begin.x, y: begin.y + half },
      end.aside ? { x: begin.x, y: end.y } : { x: end.x, y: end.y - half }, end);
  }));
}

/** Where a link leaves a box: below or above it, or at its side if the link runs beside it. */
function port(box, x, y) {
  if (x > box.x && x < box.x + box.w) return { x: centre(box).x, y };
  return { x: x <= box.x ? box.x : box.x + box.w, y: centre(box).y, aside: true };
}

/** Curves one after the other as one. */
function joined(parts) {
  return {
    path: parts.map(({ path }, at) => (at ? path.slice(path.indexOf("C")) : path)).join(" "),
    at(s) {
      const part = Math.min(Math.floor(s * parts.length), parts.length - 1);
      return parts[part].at(s * parts.length - part);
    },
  };
}

const turned = ({ path, at }) => ({ path, at: (s) => at(1 - s) });

/** From a broker's side up to a nameserver, around the brokers above it. */
function aroundPath(broker, nameserver, plan) {
  const [from, to] = [plan.boxes[broker], plan.boxes[nameserver]];
  const others = plan.bands.brokers.map((each) => plan.boxes[each]);
  if (others.every((each) => each.y >= from.y)) return curve(from, to, true);
  const goal = centre(to);
  const left = goal.x <= from.x + from.w / 2;
  const x = left ? from.x : from.x + from.w, out = left ? -46 : 46;
  return bezier({ x, y: from.y + 18 }, { x: x + out, y: from.y + 4 }, { x: x + out, y: to.y + to.h + 40 }, { x: goal.x, y: to.y + to.h });
}

const numberOf = (queue) => Number(queue.slice(queue.lastIndexOf("/") + 1));
/** Whether a topic is one of RocketMQ's own, and not one that people made. */
export const own = (topic) => /^(%RETRY%|%DLQ%|SCHEDULE_TOPIC|RMQ_SYS|rmq_sys|TBW102|SELF_TEST|OFFSET_MOVED|BenchmarkTest|DefaultCluster)/.test(topic);

/** Whether a process or client has ended: nothing travels on its links. */
const isDead = (state, id) => ["ended", "gone"].includes((state.roles[id] ?? state.clients[id])?.state);

function edges(page, plan) {
  const { state } = page;
  const { boxes, bands } = plan;
  const lines = [];
  const drawn = new Set();
  const join = (one, other, style) => {
    const line = way(plan, one, other);
    drawn.add(`${one} ${other}`).add(`${other} ${one}`);
    const cut = isCut(page, one, other);
    lines.push(svg("path", { class: `edge ${cut ? "cut" : isDead(state, one) || isDead(state, other) ? "dead" : style}`, d: line.path, "data-link": `${one} ${other}` }));
    if (!cut) return;
    const { x, y } = line.at(0.5);
    lines.push(svg("text", { class: "bad cut", x: x.toFixed(1), y: (y + 6).toFixed(1), "text-anchor": "middle" }, SYMBOL.cut));
  };
  for (const nameserver of bands.top) {
    for (const broker of bands.brokers) {
      const listed = listedAs(state, broker);
      const style = state.knows[nameserver]?.[listed] ? "" : state.forgot[nameserver]?.[listed] ? "lost" : null;
      if (style !== null) join(broker, nameserver, style);
    }
  }
  for (const proxy of bands.proxies) {
    for (const broker of bands.brokers) if (state.roles[broker].mastery !== "SLAVE") join(proxy, broker, "");
  }
  for (const client of [...bands.producers, ...bands.consumers]) {
    const { proxy } = state.clients[client];
    if (boxes[proxy]) join(client, proxy, "strong");
  }
  for (const producer of bands.producers) {
    if (state.clients[producer].proxy) continue;
    const known = routed(state, producer);
    for (const broker of bands.brokers) {
      if (known === null) join(producer, broker, "");  // its client does not tell what it knows
      else if (known.has(brokerNameOf(state, broker)) && state.roles[broker].mastery !== "SLAVE") join(producer, broker, "strong");
    }
  }
  for (const consumer of bands.consumers) {
    if (state.clients[consumer].proxy) continue;
    for (const broker of bands.brokers) {
      const owned = Object.values(state.groups).some((group) =>
        state.roles[broker].mastery !== "SLAVE" && group.members[consumer]?.queues.some((each) => brokerOf(each) === brokerNameOf(state, broker)));
      join(broker, consumer, owned ? "strong" : "");
    }
  }
  for (const { who, other } of page.cuts) if (boxes[who] && boxes[other] && !drawn.has(`${who} ${other}`)) join(who, other, "");
  return lines;
}

/** The broker names that a client has in its routes; null where it does not tell them. */
function routed(state, client) {
  const routes = state.routes[client];
  return routes === undefined ? null : new Set(Object.values(routes).flat().map(brokerOf));
}

function mark(kind, { x, y }) {
  const at = `translate(${x.toFixed(1)},${y.toFixed(1)})`;
  const shape = { sent: ["circle", { r: 5 }], pulled: ["rect", { x: -5, y: -5, width: 10, height: 10, rx: 1.5 }],
    told: ["path", { d: "M0,-7 L6,5 L-6,5 Z" }], registered: ["path", { d: "M0,-6 L6,0 L0,6 L-6,0 Z" }],
    committed: ["rect", { x: -6, y: -2, width: 12, height: 4, rx: 2 }] }[kind];
  return svg(shape[0], { ...shape[1], class: `dot ${kind}`, transform: at });
}

/** What travels at this moment. Returns one mark in how many was drawn. */
function marks(page, plan, layer) {
  const { player, timeline, state } = page;
  const travel = TRAVEL_MS * (player.following ? 1 : player.speed);
  const { events, each } = timeline.between(player.at_ms - travel, player.at_ms, MOST_MARKS,
    (event) => journey(event, state) !== null);
  const drawn = [];
  for (const { event, moment } of events) {
    const { from, to, kind } = journey(event, state);
    if (!plan.boxes[from] || !plan.boxes[to]) continue;
    drawn.push(mark(kind, way(plan, from, to).at((player.at_ms - moment) / travel)));
  }
  layer.replaceChildren(...drawn);
  return each;
}

function knowledge(page) {
  const { state, t } = page;
  const roles = Object.keys(state.roles);
  const servers = roles.filter((each) => state.roles[each].kind === "nameserver").sort();
  const brokers = [...new Set([...Object.values(state.knows), ...Object.values(state.forgot)].flatMap(Object.keys))].sort();
  const parts = [];
  const unknown = () => el("span", { class: "note", title: t("not_known") }, UNKNOWN);
  if (brokers.length) {
    parts.push(table(t("table_nameserver"), [t("broker"), ...servers], brokers.map((broker) => {
      const known = servers.filter((each) => state.knows[each]?.[broker]).length;
      return [broker, ...servers.map((each) => {
        if (state.knows[each]?.[broker]) return `✓ ${known < servers.length ? t("knows") : ""}`;
        const forgot = state.forgot[each]?.[broker];
        if (!forgot && !state.whole[each]) return unknown();
        return el("span", { class: "missing" }, forgot ? `✕ ${t("forgotten", { how: forgot.how })}` : `✕ ${t("missing")}`);
      })];
    })));
  }
  const groups = Object.keys(state.groups).sort();
  const seers = Object.keys(state.seen).sort();
  if (seers.length) {
    parts.push(table(t("table_broker"), [`${t("group")} / ${t("member")}`, ...seers], groups.flatMap((group) => {
      const everyone = [...new Set(seers.flatMap((each) => Object.keys(state.seen[each][group] ?? {})))].sort();
      return everyone.map((id) => [chip(id, `${group} · `), ...seers.map((each) => (state.seen[each][group]?.[id] ? "✓"
        : !state.whole[each] ? unknown() : el("span", { class: "missing" }, `✕ ${t("missing")}`)))]);
    })));
  }
  const telling = Object.keys(state.routes).filter((id) => state.clients[id]?.state === "running").sort();
  if (telling.length) {
    const most = {};
    for (const id of telling) for (const [topic, queues] of Object.entries(state.routes[id])) most[topic] = Math.max(most[topic] ?? 0, queues.length);
    parts.push(table(t("table_client"), [t("client"), t("routes")], telling.map((id) => [chip(id), Object.entries(state.routes[id]).filter(([topic]) => !own(topic)).map(([topic, queues]) => {
      const stale = queues.length < most[topic];
      return el("div", { class: stale ? "missing" : "" }, items(`${topic}: ${summary(queues)}${stale ? ` · ${t("stale")}` : ""}`));
    })])));
  }
  return parts;
}

/** In the order of topics, and of numbers. */
export function byNumber(one, other) {
  return topicOf(one).localeCompare(topicOf(other)) || shortQueue(one).localeCompare(shortQueue(other), "en", { numeric: true });
}

/** Queues by topic and broker, as text; the topic is left out where there is one. */
export function byTopic(queues) {
  const topics = {};
  for (const each of queues) (topics[topicOf(each)] ??= []).push(shortQueue(each));
  const several = Object.keys(topics).length > 1 || Object.keys(topics).some(own);
  return Object.entries(topics).map(([topic, all]) => (several ? `${topic} ${summary(all)}` : summary(all))).join("; ");
}

/** Queues by broker, as text: `broker-a/0–3, broker-b/0–3`. */
function summary(queues) {
  const numbers = {};
  for (const each of queues) (numbers[each.replace(/\/-?\d+$/, "")] ??= []).push(numberOf(each));
  return Object.entries(numbers).map(([broker, all]) => {
    const low = Math.min(...all), high = Math.max(...all);
    return all.length === high - low + 1 && all.length > 1 ? `${broker}/${low}–${high}` : all.map((each) => `${broker}/${each}`).join(", ");
  }).join(", ");
}

export function chip(id, before = "") {
  return el("span", { class: "chip", style: `background:${colour(id)}`, title: id }, `${before}${short(id)}`);
}

/** Draws the view into `place`; called for each frame, it makes anew only what has changed. */
export function draw(place, page) {
  const { state, t } = page;
  const width = Math.max(300, Math.floor(place.clientWidth) - 34);
  const plan = layout(state, width);
  const troubles = troublesAt(state, page.player.at_ms);
  const signature = JSON.stringify([width, page.language, page.selected, page.badge, page.isComing, page.cuts, troubles, state.roles, state.clients, state.knows,
    state.forgot, state.seen, state.routes, Object.values(state.groups).map((each) => each.queues), Object.keys(state.queues)]);
  if (place.dataset.drawn !== signature || !place.firstChild) {
    place.dataset.drawn = signature;
    const { bands, boxes } = plan;
    const broken = troubles.map(troubleWords).join("; ");
    const things = [...bands.top, ...bands.brokers, ...bands.proxies].map((id) =>
      thing(page, id, boxes[id], brokerWords(page, id), state.roles[id].kind === "broker" ? cells(page, id, boxes[id]) : []));
    things.push(...[...bands.producers, ...bands.consumers].map((id) => thing(page, id, boxes[id], clientWords(page, id))));
    const disputed = Object.entries(state.groups).flatMap(([group, each]) => {
      const { nobody, several } = conflicts(each);
      return [nobody.length > 0 && el("p", { class: "warning" }, unbroken(`${group}: ${t("some_unowned", { queues: byTopic(nobody) })}`)),
        several.length > 0 && el("p", { class: "warning" }, unbroken(`${group}: ${t("some_several", { queues: byTopic(several) })}`))];
    });
    update(place,
      el("section", { class: "card" },
        el("h2", null, t("view_cluster")),
        things.length === 0 && el("p", { class: "note", role: "status" }, t(page.badge === "loading" || page.isComing ? "loading" : "nobody_here")),
        svg("svg", { width, height: plan.height, viewBox: `0 0 ${width} ${plan.height}`, role: "group", "aria-label": t("picture") },
          svg("g", null, edges(page, plan)), svg("g", { class: "marks", "aria-hidden": true }), svg("g", null, things)),
        el("ul", { class: "legend", hidden: things.length === 0 }, KINDS.map((kind) => el("li", null,
          svg("svg", { width: 15, height: 14, viewBox: "-8 -7 15 14", "aria-hidden": true }, mark(kind, { x: 0, y: 0 })), t(`legend_${kind}`))),
        el("li", { class: "sampled" })),
        broken && el("p", { class: "warning" }, t("troubles_now", { troubles: broken })),
        page.cuts.length > 0 && el("p", { class: "warning" }, t("links_cut", { links: page.cuts.map(({ who, other }) =>
          `${short(who)} ✂ ${sideWords(other, t)}`).join(", ") })), disputed),
      el("div", { class: "cards" }, knowledge(page).map((each) => el("section", { class: "card" }, each))));
  }
  const each = marks(page, plan, place.querySelector(".marks"));
  const sampled = place.querySelector(".sampled");
  const text = each > 1 ? t("sampled", { each }) : "";
  if (sampled.textContent !== text) sampled.textContent = text;
}
