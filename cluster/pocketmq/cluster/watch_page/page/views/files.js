/** The commit log as it grows, what is on the disk and what a power cut would take, and bytes beside fields. */

import { changed, el, svg, table, update, withCode } from "watch/dom.js";
import { count, UNKNOWN } from "watch/names.js";
import { atRisk } from "watch/state.js";

export const name = "files";

/** A record's fields as the commit log has them, where each stands; from what its event tells. */
function layoutOf(record) {
  return [["PHYSICALOFFSET", record.physical_offset], ["TOTALSIZE", record.size], ["TOPIC", record.topic], ["QUEUEID", record.queue],
    ["QUEUEOFFSET", record.offset], ["RECONSUMETIMES", record.attempt ?? 0], ["KEYS", record.keys ?? "–"], ["UNIQ_KEY", record.unique_key ?? "–"]];
}

function picture(store, width, t) {
  const from = store.records[0]?.physical_offset ?? 0;
  const length = Math.max((store.end ?? from) - from, 1);
  const isKnown = atRisk(store) !== null;
  const x = (offset) => Math.min(Math.max(((offset - from) / length) * (width - 2), 0), width - 2) + 1;
  const mark = (offset, label, y) => (offset === null ? svg("text", { class: "soft", x: 4, y }, `${label} ${count(offset)}`)
    : svg("g", null, svg("line", { class: "now", x1: x(offset), x2: x(offset), y1: 4, y2: 50 }),
      svg("text", { class: "soft", x: Math.min(x(offset), width - 4), y, "text-anchor": x(offset) > width / 2 ? "end" : "start" }, `${label} ${count(offset)}`)));
  return svg("svg", { width, height: 84, viewBox: `0 0 ${width} 84`, role: "img", "aria-label": `${t("flushed_to")} ${store.flushed ?? UNKNOWN}, ${t("log_end")} ${store.end ?? UNKNOWN}` },
    svg("rect", { x: 1, y: 10, width: width - 2, height: 34, rx: 5, fill: isKnown ? "url(#hatch)" : "var(--ground)", stroke: isKnown ? "var(--warn)" : "var(--edge)", "stroke-dasharray": "5 4" }),
    isKnown && svg("rect", { x: 1, y: 10, width: Math.max(x(store.flushed) - 1, 0), height: 34, rx: 5, fill: "var(--c2)", stroke: "var(--edge)" }),
    store.records.map((each) => svg("line", { x1: x(each.physical_offset), x2: x(each.physical_offset), y1: 10, y2: 44, stroke: "var(--edge)" })),
    mark(store.flushed, t("flushed_to"), 64), mark(store.end, t("log_end"), 80));
}

const COLOURS = 8;

/** Bytes in rows, each field in its colour; a field that is pressed is marked in the table too. */
function annotated(page, fields, broker) {
  const chosen = page.field ?? "";
  return el("div", { class: "bytes" }, fields.map((field, at) => el("button", {
    style: `background:var(--c${at % COLOURS})`, title: `${field.name}: ${field.value}`, "aria-label": `${field.name}: ${field.value}`,
    "aria-pressed": chosen === field.name ? "true" : "false", "data-field": field.name, "data-key": `field ${broker} ${field.name}` }, field.hex || "–")));
}

function fieldTable(page, caption, fields) {
  const { t } = page;
  return table(caption, [t("field"), t("at_byte"), t("bytes"), t("value"), t("meaning")], fields.map((field) => ({
    attributes: field.name === page.field ? { class: "chosen" } : null,
    cells: [el("code", null, field.name), el("span", { class: "number" }, count(field.at)), el("span", { class: "number" }, count(field.size)),
      el("span", { class: "value" }, field.value), el("span", { class: "note" }, withCode(field.meaning ?? ""))] })));
}

/** The bytes of a record, read from the store of a running broker. */
function bytes(page, broker, record) {
  const { t } = page;
  const key = `${broker} ${record.physical_offset}`;
  const found = page.bytes?.[key];
  if (!page.isLive) return null;
  if (found === undefined) return el("button", { class: "button main", "data-bytes": key, "data-key": `bytes ${key}` }, t("read_bytes"));
  if (found.error) return el("p", { class: "warning" }, found.error);
  const part = (label, fields) => fields.length > 0 && [el("h3", null, label), annotated(page, fields, `${broker} ${label}`), fieldTable(page, label, fields)];
  return [
    el("h3", null, t("bytes_of")), annotated(page, found.record, broker), fieldTable(page, t("fields"), found.record),
    part(t("consume_queue"), found.queue_entry), part(t("index_file"), found.index), part(t("checkpoint"), found.checkpoint),
    el("button", { class: "button", "data-bytes": key, "data-key": `bytes ${key}` }, t("refresh")),
  ];
}

export function draw(place, page) {
  const { state, t, player } = page;
  const width = Math.max(280, Math.floor(place.clientWidth) - 34);
  const signature = JSON.stringify([page.language, width, player.following, page.record, page.field, page.bytesRead, state.stores]);
  if (!changed(place, page, signature)) return;
  const brokers = Object.keys(state.stores).sort();
  if (brokers.length === 0) {
    update(place, el("section", { class: "card" }, el("h2", null, t("view_files")), el("p", { class: "note" }, t("files_none"))));
    return;
  }
  update(place, brokers.map((broker) => {
    const store = state.stores[broker];
    const wanted = page.record?.startsWith(`${broker} `) ? page.record : null;
    const chosen = (wanted && page.records?.[wanted]) ?? (page.readsAlong ? page.tails?.[broker] : null) ?? store.records.at(-1);
    return el("section", { class: "card" },
      el("h2", null, t("log_of", { broker })), picture(store, width, t),
      el("p", { class: "note" }, `${t("dispatched_to")} ${count(store.dispatched)} · ${t("at_risk")}: ${count(atRisk(store))} B`),
      [store.end, store.flushed, store.dispatched].includes(null) && el("p", { class: "note" }, t("not_known_of_log")),
      legend(t, store.flushed === null),
      el("div", { class: "log" }, store.records.map((each) => el("button", {
        class: store.flushed === null ? "unknown" : each.physical_offset + each.size > store.flushed ? "cache" : "", "aria-pressed": each === chosen ? "true" : "false",
        "data-record": `${broker} ${each.physical_offset}`, "data-key": `record ${broker} ${each.physical_offset}` }, count(each.physical_offset)))),
      page.isLive && (page.readsAlong ? el("p", { class: "note" }, t("reads_along"))
        : el("button", { class: "button", "data-do": "tail", "data-key": `tail ${broker}` }, t("read_along"))),
      chosen && [
        page.bytes?.[`${broker} ${chosen.physical_offset}`]?.record ? null : table(t("record_at", { offset: count(chosen.physical_offset) }), [t("field"), t("value")], layoutOf(chosen).map(([field, value]) => [el("code", null, field), String(value ?? UNKNOWN)])),
        bytes(page, broker, chosen)]);
  }), !page.isLive && el("p", { class: "note" }, t("bytes_live")));
}

const legend = (t, hasUnknown) => el("ul", { class: "legend" }, [["", "flushed"], ["cache", "cached"], ...(hasUnknown ? [["unknown", "not_known"]] : [])].map(([style, key]) =>
  el("li", null, el("span", { class: "log inline" }, el("span", { class: `sample ${style}` }, "0")), t(key))));
