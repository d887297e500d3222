/** The clock: protocol and real time, what is due next, and everything that happened. */

import { changed, el, update, table } from "watch/dom.js";
import { clockTime, count, seconds } from "watch/names.js";
import { eventList } from "watch/panel.js";

const SPEEDS = [1, 10, 60];
const STEPS_S = [1, 30, 120];

export const name = "time";

function deadlines(page) {
  const { t, clock } = page;
  if (!page.isLive) return el("p", { class: "note" }, t("deadlines_recorded"));
  if (!clock) return el("p", { class: "note" }, t("not_known"));
  if (clock.kind !== "manual") return el("p", { class: "note" }, t("no_deadlines"));
  const next = clock.next[0];
  return [
    next && el("p", null, `${t("deadline")}: `, el("strong", null, `${next.role} · ${next.what}`), ` · ${t("deadline_in")} ${next.in_s.toFixed(3)} s`),
    el("div", { class: "buttons" },
      el("button", { class: "button main", "data-ask": "clock/next", "data-key": "next" }, t("deadline_step")),
      STEPS_S.map((s) => el("button", { class: "button", "data-ask": "clock/advance", "data-body": JSON.stringify({ seconds: s }), "data-key": `advance ${s}` }, t("advance", { s }))),
      SPEEDS.map((speed) => el("button", { class: "button", "data-ask": "clock/run", "data-body": JSON.stringify({ speed }), "data-key": `run ${speed}` }, t("run_clock", { speed }))),
      el("button", { class: "button", "data-ask": "clock/freeze", "data-key": "freeze clock" }, t("stop_clock"))),
    table(t("deadlines"), [t("process"), t("deadline_what"), t("deadline_in")],
      clock.next.slice(0, 12).map((each) => [each.role, each.what, el("span", { class: "number" }, `${each.in_s.toFixed(3)} s`)])),
  ];
}

export function draw(place, page) {
  const { state, timeline, player, t } = page;
  const signature = JSON.stringify([page.language, player.at_ms, page.clock, timeline.events.length]);
  if (!changed(place, page, signature)) return;
  const fact = (label, value) => el("section", { class: "card" }, el("p", { class: "note" }, label), el("div", { class: "big" }, value));
  const { sent, stored, consumed, again, dead } = state.totals;
  update(place,
    el("div", { class: "cards" },
      fact(t("virtual"), clockTime(state.at_ms)),
      fact(t("real"), `${seconds(player.at_ms - timeline.began_ms)} s`),
      fact(t("events"), count(state.count))),
    el("section", { class: "card", style: "margin-top:1rem" },
      el("h2", null, t("clock")),
      el("p", { class: "note" }, `${t(page.isLive ? "counted_live" : "counted_recorded")}: `, t("dots_sum", { sent: count(sent), stored: count(stored), consumed: count(consumed), again: count(again), dead: count(dead) })),
      deadlines(page)),
    el("section", { class: "card" }, el("h2", null, t("happened")), eventList(page, 120, () => true)));
}
