/** Bodies of messages of one topic as they come, and their export. */

import { el, unbroken, update } from "watch/dom.js";
import { clockTime, count } from "watch/names.js";

export const name = "messages";

const PREVIEW_CHARS = 300;

/** Where a topic is chosen; main.js listens for `submit`. */
function chooser(page) {
  const { t, tail } = page;
  return el("form", { class: "tail", "data-form": "tail", "data-key": "tail form" },
    el("label", { for: "tail-topic" }, t("send_topic")),
    el("input", { id: "tail-topic", name: "topic", autocomplete: "off", required: true, list: "topics", "data-key": "tail topic",
      // The frame of the page may be built anew while somebody types.
      value: page.typed ?? tail?.topic, oninput: (event) => { page.typed = event.target.value; } }),
    el("button", { class: "button main", type: "submit", "data-key": "tail show" }, t("tail_show")),
    tail && el("button", { class: "button", type: "button", "data-do": "stop-tail", "data-key": "tail stop" }, t(tail.isStopped ? "tail_go_on" : "tail_stop")));
}

function downloads({ t, tail }) {
  const some = tail.rows.some((each) => each.body !== undefined);
  return el("div", { class: "buttons" },
    some && el("a", { class: "button", href: tail.address(false), download: `${tail.topic}.jsonl`, "data-key": "export shown" }, t("tail_export_shown")),
    el("a", { class: "button", href: tail.address(true), download: `${tail.topic}.jsonl`, "data-key": "export topic" }, t("tail_export_topic")));
}

/** The body in one or two lines. */
function preview({ form, body }) {
  // Of a dump the bytes of its first line, without their offset and characters.
  return form === "hex" ? body.slice(10, 58).trim() : body.slice(0, PREVIEW_CHARS);
}

function details({ t }, { id, size, body, form, is_whole: isWhole, reconsume_times: again, properties }) {
  const facts = [[t("tail_id"), id], ...(again ? [[t("tail_retries"), again]] : [])];
  return el("div", { class: "details" },
    el("dl", { class: "facts" }, [...facts, ...Object.entries(properties)].flatMap(([term, value]) => [el("dt", null, term), el("dd", null, value)])),
    el("pre", { class: `body ${form}`, tabindex: 0, role: "group", "aria-label": t("send_body") }, body),
    !isWhole && form !== "error" && el("p", { class: "note" }, t("tail_cut", { size: count(size) })));
}

function row(page, each) {
  const { t } = page;
  if (each.pause) return el("li", { class: "note", "data-key": each.key }, t("tail_pause"));
  if (each.passed_over) return el("li", { class: "note", "data-key": each.key }, t("tail_passed_over", { count: count(each.passed_over) }));
  const isOpen = page.message === each.key;
  return el("li", { "data-key": `row ${each.key}` },
    el("button", { "data-message": each.key, "data-key": `message ${each.key}`, "aria-expanded": isOpen ? "true" : "false" },
      el("span", { class: "where" },
        el("span", { class: "number" }, clockTime(each.stored_ms)), " ", unbroken(`${each.broker}/${each.queue}`), ` ${t("tail_at", { offset: count(each.offset) })} `,
        each.tag && el("span", { class: "chip plain" }, each.tag), each.keys && el("span", { class: "chip plain" }, each.keys),
        el("span", { class: "number" }, t(each.form === "hex" ? "tail_bytes_hex" : "tail_bytes", { size: count(each.size) }))),
      !isOpen && el("span", { class: "preview" }, preview(each))),
    isOpen && details(page, each));
}

export function draw(place, page) {
  const { t, tail } = page;
  const signature = JSON.stringify([page.language, page.isLive, page.message, tail && [tail.topic, tail.version, tail.isStopped]]);
  if (place.dataset.drawn === signature && place.firstChild) return;
  place.dataset.drawn = signature;
  if (!page.isLive) {
    update(place, el("section", { class: "card" }, el("h2", null, t("view_messages")), el("p", { class: "warning" }, t("tail_recorded"))));
    return;
  }
  update(place,
    el("section", { class: "card" },
      el("h2", null, t("view_messages")), el("p", { class: "note" }, t("tail_note")), chooser(page),
      tail?.problem && el("p", { class: "warning", role: "alert" }, tail.problem)),
    tail && el("section", { class: "card", "data-key": "tail" },
      el("h2", null, t("tail_of", { topic: tail.topic })),
      downloads(page),
      tail.rows.length === 0
        ? el("p", { class: "note", role: "status" }, t(tail.hasBegun ? "tail_none" : "loading"))
        : el("ol", { class: "messages", tabindex: 0, "aria-label": t("tail_of", { topic: tail.topic }) }, tail.rows.map((each) => row(page, each)))));
}
