/** Queues × members over time: who owned which queue from when to when, why, and by which arithmetic. */

import { el, items, svg, table, unbroken, update } from "watch/dom.js";
import { colour, seconds, short, UNKNOWN } from "watch/names.js";
import { causeWords } from "watch/sentences.js";
import { conflicts, shortQueue, topicOf } from "watch/state.js";
import { points } from "watch/ring.js";
import { byNumber, byTopic, chip } from "watch/views/cluster.js";

const ROW = 24;
const LABEL = 118;
const MOST_QUEUES = 64;
const MOST_CHANGES = 40;

export const name = "queues";

/** The lanes of one group, up to the newest event; what lies ahead of the moment is covered. */
function picture(page, group, width) {
  const { state, timeline, t } = page;
  const several = state.groups[group].broadcasting ? "" : "several";
  const lanes = timeline.lanes.groups[group] ?? {};
  const queues = Object.keys(lanes).sort(byNumber).slice(0, MOST_QUEUES);
  const began = timeline.began_ms, length = Math.max(timeline.ended_ms - began, 1);
  const topics = new Set(queues.map(topicOf));
  const label = width < 500 && topics.size < 2 ? 84 : LABEL;
  const x = (moment) => label + ((moment - began) / length) * (width - label - 6);
  const height = queues.length * ROW + 28;
  const rows = queues.flatMap((queue, line) => {
    const y = line * ROW;
    const text = topics.size > 1 ? `${topicOf(queue)} ${shortQueue(queue)}` : shortQueue(queue);
    return [
      svg("text", { class: "soft label", x: 0, y: y + 16, tabindex: 0, role: "button", "data-select": queue, "data-key": `lane ${group} ${queue}`, "aria-label": `${t("queue")} ${queue}` }, text.length > 17 ? `${text.slice(0, 4)}…${text.slice(-12)}` : text),
      lanes[queue].map((span) => {
        const from = x(span.from_ms), to = x(span.to_ms ?? timeline.ended_ms);
        const owners = span.owners;
        const words = span.unknown ? UNKNOWN : owners.length === 0 ? t("no_owner") : owners.length === 1 ? short(owners[0])
          : `${t("owners_two", { n: owners.length })}: ${owners.map(short).join(", ")}`;
        const title = t("lane_label", { queue: shortQueue(queue), owner: words, from: seconds(span.from_ms - began),
          to: span.to_ms === null ? t("until_now") : seconds(span.to_ms - began) });
        const w = Math.max(to - from - 1, 1.5);
        const fits = w > words.length * 6.4 + 8;
        return svg("g", { class: "lane", "data-select": queue, "data-moment": span.from_ms },
          svg("title", null, `${title}${span.cause ? ` · ${causeWords(span.cause, t)}` : ""}`),
          owners.length < 2
            ? svg("rect", { class: `lane ${owners.length ? "" : span.unknown ? "unknown" : "none"}`, x: from, y: y + 2, width: w, height: ROW - 4, rx: 3, fill: owners.length ? colour(owners[0]) : null })
            : owners.map((owner, at) => svg("rect", { class: `lane ${several}`, x: from, y: y + 2 + at * ((ROW - 4) / owners.length), width: w,
              height: (ROW - 4) / owners.length, fill: colour(owner) })),
          fits && svg("text", { class: owners.length ? "dark" : "soft", x: from + 5, y: y + 16 }, words));
      }),
    ];
  });
  const marks = (timeline.lanes.causes_of[group] ?? []).map((cause) => svg("g", null,
    svg("title", null, `${seconds(cause.moment - began)} s: ${causeWords(cause, t)}`),
    svg("line", { class: "axis", x1: x(cause.moment), x2: x(cause.moment), y1: 0, y2: queues.length * ROW + 4, "stroke-dasharray": "2 3" }),
    svg("text", { class: "soft", x: x(cause.moment), y: queues.length * ROW + 17, "text-anchor": "middle" }, cause.how === "joined" ? "▲" : "▼")));
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${t("lanes")}: ${group}` },
    rows, marks,
    svg("g", { class: "cursor", "data-from": label, "data-width": width - label - 6, "data-height": queues.length * ROW + 4 },
      svg("rect", { class: "ahead", y: 0, height: queues.length * ROW + 4 }), svg("line", { class: "now", y1: 0, y2: queues.length * ROW + 4 })));
}

function move(place, page) {
  const { timeline, player } = page;
  const length = Math.max(timeline.ended_ms - timeline.began_ms, 1);
  const part = Math.min(Math.max((player.at_ms - timeline.began_ms) / length, 0), 1);
  for (const cursor of place.querySelectorAll(".cursor")) {
    const from = Number(cursor.dataset.from), width = Number(cursor.dataset.width);
    const [ahead, line] = cursor.children;
    ahead.setAttribute("x", from + part * width);
    ahead.setAttribute("width", Math.max((1 - part) * width, 0));
    line.setAttribute("x1", from + part * width);
    line.setAttribute("x2", from + part * width);
  }
}

function changes(page, group) {
  const { timeline, player, t } = page;
  const all = (timeline.lanes.changes[group] ?? []).filter((each) => each.moment <= player.at_ms).slice(-MOST_CHANGES).reverse();
  if (all.length === 0) return null;
  const list = (queues) => (queues?.length ? items(byTopic(queues)) : "–");
  return table(t("changes"), [t("when"), t("cause"), t("member"), t("gained"), t("lost_queues"), t("arithmetic")], all.map((each) => [
    el("button", { class: "button number", "data-seek": each.moment, "data-key": `seek ${each.moment} ${each.client_id}` }, `${seconds(each.moment - timeline.began_ms)} s`),
    causeWords(each.cause, t), chip(each.client_id), list(each.gained), list(each.lost),
    each.arithmetic ? el("span", { class: "sum" }, each.arithmetic.startsWith(each.strategy) ? each.arithmetic : `${each.strategy}: ${each.arithmetic}`) : "–"]));
}

/** The newest allocation by consistent hash, as its ring; or nothing. */
function ring(page, group) {
  const { state, t } = page;
  const found = Object.values(state.groups[group].allocated).flatMap((topics) => Object.entries(topics))
    .filter(([, each]) => /consistent|hash/i.test(each.strategy)).sort((a, b) => b[1].at_ms - a[1].at_ms)[0];
  if (!found) return null;
  const [topic, { members, queues }] = found;
  const all = points(members, queues, topic);
  const spot = (part, radius) => ({ x: 160 + Math.sin(part * 2 * Math.PI) * radius, y: 160 - Math.cos(part * 2 * Math.PI) * radius });
  return el("section", { class: "card" }, el("h3", null, t("ring")), el("p", { class: "note" }, t("ring_note")),
    svg("svg", { width: 320, height: 320, viewBox: "0 0 320 320", role: "img", "aria-label": `${t("ring")}: ${members.map(short).join(", ")}` },
      svg("circle", { cx: 160, cy: 160, r: 120, fill: "none", class: "axis", "stroke-width": 2 }),
      all.members.map(({ part, member }) => {
        const { x, y } = spot(part, 120);
        return svg("circle", { cx: x, cy: y, r: 5.5, fill: colour(member), stroke: "var(--edge)" }, svg("title", null, short(member)));
      }),
      all.queues.map(({ part, queue, owner }) => {
        const from = spot(part, 102), text = spot(part, 84), to = spot(part, 120);
        return svg("g", null, svg("title", null, `${queue} → ${short(owner)}`),
          svg("line", { class: "axis", x1: from.x, y1: from.y, x2: to.x, y2: to.y }),
          svg("rect", { x: from.x - 5, y: from.y - 5, width: 10, height: 10, fill: colour(owner), stroke: "var(--ink)" }),
          svg("text", { class: "soft", x: text.x, y: text.y + 4, "text-anchor": "middle" }, queue.replace(/^.*-/, "")));
      })),
    el("p", null, members.map((each) => chip(each))));
}

export function draw(place, page) {
  const { state, timeline, player, t } = page;
  const width = Math.max(300, Math.floor(place.clientWidth) - 34);
  const groups = Object.keys(state.groups).sort();
  const shown = groups.map((group) => (timeline.lanes.changes[group] ?? []).filter((each) => each.moment <= player.at_ms).length);
  const signature = JSON.stringify([width, page.language, groups, shown, timeline.lanes.version, Math.floor(timeline.ended_ms / 250),
    Object.values(state.groups).map((each) => [each.queues, each.locks])]);
  if (place.dataset.drawn !== signature || !place.firstChild) {
    place.dataset.drawn = signature;
    update(place, groups.length === 0
      ? el("section", { class: "card" }, el("h2", null, t("view_queues")), el("p", { class: "note" }, t("no_groups")))
      : groups.map((group) => {
        const { nobody, several, unknown } = conflicts(state.groups[group]);
        const left = Object.keys(timeline.lanes.groups[group] ?? {}).length - MOST_QUEUES;
        return [
          el("section", { class: "card" },
            el("h2", null, t("group_title", { group })),
            el("p", null, Object.keys(state.groups[group].members).sort().map((each) => chip(each))),
            nobody.length > 0 && el("p", { class: "warning" }, unbroken(t("some_unowned", { queues: byTopic(nobody) }))),
            several.length > 0 && el("p", { class: "warning" }, unbroken(t("some_several", { queues: byTopic(several) }))),
            unknown && el("p", { class: "note" }, t("owners_not_known")),
            nobody.length + several.length === 0 && !unknown && el("p", { class: "note" }, `✓ ${t(state.groups[group].broadcasting ? "broadcasting" : "all_owned")}`),
            picture(page, group, width), left > 0 && el("p", { class: "note" }, t("more_queues", { n: left })), changes(page, group)),
          ring(page, group)];
      }));
  }
  move(place, page);
}
