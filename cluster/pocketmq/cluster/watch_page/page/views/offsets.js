/** How far each group is in each queue: process queue, out of order, committable, committed, lag. */

import { el, update, svg, table } from "watch/dom.js";
import { count, UNKNOWN } from "watch/names.js";
import { isWhole, shortQueue, topicOf } from "watch/state.js";
import { chip } from "watch/views/cluster.js";

const CELLS = 28;
/** Height of a row in px, about. */
const ROW = 34;
/** Of longer lists only the rows that are seen are made. */
const MOST_ROWS = 60;
const LOOKED_BACK_MS = 6000;

/** Whether a lag grows: all of the last half of some seconds is above all of the half before. */
function grows(page, key, lag) {
  if (lag === null) return false;
  const now = page.player.at_ms;
  let seen = page.lags.get(key) ?? [];
  if (seen.length && seen.at(-1).at > now) seen = [];  // somebody went back in time
  if (!seen.length || now - seen.at(-1).at > 250) seen.push({ at: now, lag });
  while (seen.length && now - seen[0].at > LOOKED_BACK_MS) seen.shift();
  page.lags.set(key, seen);
  const half = now - (now - (seen[0]?.at ?? now)) / 2;
  const before = seen.filter((each) => each.at < half), since = seen.filter((each) => each.at >= half);
  return seen.length >= 6 && Math.min(...since.map((each) => each.lag)) > Math.max(...before.map((each) => each.lag));
}

/** The part of a list that is to be made, and how high what is left out would be. */
function part(place, key, all) {
  if (all.length <= MOST_ROWS) return { shown: all, above: 0, below: 0 };
  const scrolled = [...place.querySelectorAll("[data-window]")].find((each) => each.dataset.window === key)?.scrollTop ?? 0;
  const from = Math.max(0, Math.min(Math.floor(scrolled / ROW) - 10, all.length - MOST_ROWS));
  return { shown: all.slice(from, from + MOST_ROWS), above: from * ROW, below: (all.length - from - MOST_ROWS) * ROW };
}

const spacer = (height, key) => (height > 0 ? [{ attributes: { style: `height:${height}px`, "aria-hidden": true, "data-key": key }, cells: [""] }] : []);

export const name = "offsets";

const CELL = 11;
const STYLES = { committed: { fill: "var(--c2)" }, consumed: { fill: "var(--c0)" }, out: { fill: "var(--c1)" },
  process: { fill: "var(--panel)", "stroke-dasharray": "2 2" }, waiting: { fill: "var(--ground)", opacity: 0.75 }, unknown: { fill: "none", "stroke-dasharray": "1 3" } };
const INNER = { committed: "m2.5 9l2 3l3.5 -6", consumed: "m2.5 9h5", out: "m5 5.5v7m-3 -3.5h6", unknown: "m3 7a2 2 0 1 1 2 2.2v1.8m0 2v1" };

/** Cells of one kind at some places, as one shape: the view is drawn anew in each frame of a scrub. */
function cells(kind, places) {
  const at = (inner) => places.map((x) => `M${x} 4${inner}`).join("");
  return [svg("path", { d: at("h10v18h-10z"), stroke: "var(--edge)", "data-cells": kind, ...STYLES[kind] }),
    INNER[kind] && svg("path", { d: at(INNER[kind]), stroke: kind === "unknown" ? "var(--soft)" : "#111", fill: "none", "stroke-width": 1.3 })];
}

/** The offsets around where a queue is consumed, one cell for each message. */
function strip(progress, stored, t, queue) {
  const { committed, pulled, out, seen } = progress;
  const whole = isWhole(progress);
  const next = whole ? progress.next : committed;
  const known = [committed, next].filter((each) => each !== null);
  const from = committed === null ? next ?? pulled ?? 0 : Math.max(0, Math.min(...known) - 4);
  const end = known.length || pulled !== null ? Math.min(from + CELLS, Math.max(stored, pulled, next)) : from;
  const kind = (offset) => {
    if (offset < committed) return "committed";
    // Nobody told which is consumed and which in process; nor, before a first pull was seen, what is pulled.
    if (!whole) return seen === null || offset < pulled ? "unknown" : "waiting";
    if (offset < next) return "consumed";
    if (out.includes(offset)) return "out";
    return offset < pulled ? "process" : "waiting";
  };
  const places = {};
  for (let offset = from; offset < end; offset += 1) {
    (places[kind(offset)] ??= []).push(1 + (offset - from) * CELL);
  }
  const label = t("offset_picture", { queue: shortQueue(queue), committed: committed ?? UNKNOWN, next: next ?? UNKNOWN, pulled: pulled ?? UNKNOWN, stored: stored ?? UNKNOWN });
  return svg("svg", { width: CELLS * CELL + 2, height: 26, viewBox: `0 0 ${CELLS * CELL + 2} 26`, role: "img", "aria-label": label },
    svg("title", null, label), Object.entries(places).map(([each, all]) => cells(each, all)));
}

const legend = (t) => el("ul", { class: "legend" }, [["committed", "legend_committed_part"], ["consumed", "legend_consumed"], ["out", "legend_out"],
  ["process", "legend_process"], ["waiting", "legend_waiting"], ["unknown", "not_known"]].map(([kind, key]) => el("li", null,
  svg("svg", { width: 12, height: 22, viewBox: "0 2 12 22", "aria-hidden": true }, cells(kind, [1])), t(key))));

/** A lag; one that grows is marked, and not by its colour alone. */
function lagging(page, key, lag, least) {
  const isGrowing = grows(page, key, lag) && lag > 0;
  return el("span", { class: isGrowing ? "number missing" : "number", title: isGrowing ? page.t("grows") : null }, `${count(lag, least)}${isGrowing ? " ↑" : ""}`);
}

export function draw(place, page) {
  const { state, t } = page;
  const groups = Object.keys(state.offsets).sort();
  const tick = page.player.playing || page.player.following ? Math.floor(performance.now() / 150) : 0;
  const signature = JSON.stringify([tick || [state.offsets, state.queues], page.language, page.player.at_ms * !tick]);
  if (place.dataset.drawn === signature && place.firstChild) return;
  place.dataset.drawn = signature;
  if (groups.length === 0) {
    update(place, el("section", { class: "card" }, el("h2", null, t("view_offsets")), el("p", { class: "note" }, t("no_offsets"))));
    return;
  }
  update(place, groups.map((group) => {
    const queues = Object.keys(state.offsets[group]).sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    const key = `offsets ${group}`;
    const { shown, above, below } = part(place, key, queues);
    return el("section", { class: "card" },
      el("h2", null, t("offsets", { group })), el("p", { class: "note" }, t("offsets_note")), (state.sampled || page.large) && el("p", { class: "note" }, t("offsets_sampled")), legend(t),
      table(t("offsets", { group }), [t("queue"), t("owner"), t("progress"), t("committed"), t("committable"), t("out_of_order"), t("in_process"), t("pulled"), t("stored"), t("lag")],
        [...spacer(above, `${key} above`), ...shown.map((queue) => {
          const progress = state.offsets[group][queue];
          const told = state.queues[queue]?.stored ?? null;
          const stored = told === null && progress.pulled === null ? null : Math.max(told, progress.pulled);
          const least = told === null || state.queues[queue].least;  // pulled are those that are there at least
          const owners = state.groups[group]?.queues[queue] ?? [];
          const lag = stored === null || progress.committed === null ? null : stored - progress.committed;
          const whole = isWhole(progress);
          const inProcess = !whole ? null : Math.max(progress.pulled - progress.next - progress.out.length, 0);
          const number = (value, more = false) => el("span", { class: "number" }, count(value, more));
          return [el("button", { "data-select": queue, "data-key": `queue ${group} ${queue}`, class: "plain" }, `${topicOf(queue)} ${shortQueue(queue)}`), owners.map((each) => chip(each)),
            strip(progress, stored, t, queue), number(progress.committed), number(whole ? progress.next : progress.committed, !whole), number(whole ? progress.out.length : null),
            number(inProcess), number(progress.pulled, progress.seen === null), number(stored, least),
            lagging(page, `${group} ${queue}`, lag, least)];
        }), ...spacer(below, `${key} below`)], { class: "hidden-text", window: queues.length > MOST_ROWS ? key : undefined }));
  }));
}
