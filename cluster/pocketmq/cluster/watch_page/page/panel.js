/** Beside each view: what is selected, and what happened last. */

import { changed, el, items, table, unbroken, update } from "watch/dom.js";
import { clockTime, count, seconds, short } from "watch/names.js";
import { atRisk, brokerOf, isStructure, isWhole, listedAs, ownersOf, queueOf, shortQueue, topicOf } from "watch/state.js";
import { sentence } from "watch/sentences.js";
import { byNumber, chip, own, queuesOf } from "watch/views/cluster.js";
import { faultButtons } from "watch/views/break.js";

const SHOWN = 40;
const LOOKED_BACK = 4000;
const MOST_BUTTONS = 64;
/** Characters of an id that are shown: clients choose theirs. */
const MOST_SHOWN = 512;

/** The last events up to the moment that `wanted` takes, newest first. */
export function eventList(page, most, wanted) {
  const { timeline, player, t } = page;
  const rows = [];
  const end = timeline.indexAt(player.at_ms);
  for (let at = end - 1; at >= 0 && at > end - LOOKED_BACK && rows.length < most; at -= 1) {
    const event = timeline.events[at];
    if (event.event === "frame" || event.loaded || !wanted(event)) continue;
    const moment = timeline.moments[at];
    const rule = page.rules[event.event];
    rows.push(el("li", null, el("button", { "data-seek": moment, "data-key": `event ${at}`, title: t("told_by", { by: event.by ?? "?" }) },
      el("span", { class: "when number" }, seconds(moment - timeline.began_ms)),
      el("span", null, unbroken(sentence(event, page.language)), rule && el("span", { class: "rule" }, ` ${rule}`)))));
  }
  return rows.length ? el("ol", { class: "events", tabindex: 0, "aria-label": t("happened") }, rows) : el("p", { class: "note" }, t("happened_none"));
}

function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter((each) => each).flatMap(([term, value]) => [el("dt", null, term), el("dd", null, value)]));
}

/** The queues of a broker, to be selected also without a mouse. */
function queueButtons(state, id) {
  const all = queuesOf(state, id).sort(byNumber);
  return [all.slice(0, MOST_BUTTONS).map((queue) =>
    el("button", { class: "chip plain", "data-select": queue, "data-key": `of ${queue}` }, `${topicOf(queue)} ${shortQueue(queue)}`)),
  all.length > MOST_BUTTONS && el("span", { class: "note" }, ` +${all.length - MOST_BUTTONS}`)];
}

function roleFacts(page, id) {
  const { state, t } = page;
  const role = state.roles[id];
  const forgot = Object.keys(state.forgot).filter((each) => state.forgot[each][listedAs(state, id)]);
  const store = state.stores[id];
  return [facts([
    [t("kind"), t(`kind_${role.kind}`)], [t("state"), t(`state_${role.state}`) + (role.mastery ? ` · ${role.mastery}` : "")],
    [t("since"), role.since_ms === null ? t("not_known") : clockTime(role.since_ms)],
    forgot.length > 0 && [t("knowledge"), items(t("expired_at", { who: forgot.join(", ") }))],
    role.kind === "nameserver" && [t("knows"), state.knows[id] === undefined ? t("not_known") : items(Object.keys(state.knows[id]).join(", ") || t("nothing"))],
    role.kind === "broker" && [t("queues"), queueButtons(state, id)],
    store && [t("log_end"), count(store.end)], store && [t("flushed_to"), count(store.flushed)],
    store && [t("at_risk"), `${count(atRisk(store))} B`],
  ]), faultButtons(page, id)];
}

function clientFacts(page, id) {
  const { state, t } = page;
  const found = state.clients[id];
  const group = state.groups[found.group];
  const allocated = Object.values(group?.allocated[id] ?? {})[0];
  return [facts([
    [t("client"), id], [t("kind"), t(`kind_${found.kind}`)], [t("state"), t(`state_${found.state}`)], [t("group"), found.group || "–"],
    found.status && [t("last_answer"), found.status],
    group && [t("owns"), group.members[id]?.unknown ? t("not_known") : items(group.members[id]?.queues.map(shortQueue).join(", ") || t("nothing"))],
    allocated && [t("strategy"), allocated.strategy], allocated && [t("arithmetic"), allocated.arithmetic],
  ])];
}

function queueFacts(page, queue) {
  const { state, t } = page;
  const rows = Object.entries(state.offsets).filter(([, queues]) => queues[queue]).map(([group, queues]) => {
    const progress = queues[queue], { committed, next, pulled, seen } = progress;
    const whole = isWhole(progress);
    return [group, `${t("committed")} ${count(committed)} · ${t("committable")} ${count(whole ? next : committed, !whole)} · ${t("pulled")} ${count(pulled, seen === null)}`];
  });
  const owners = ownersOf(state, queue);
  return [facts([
    [t("queue"), queue], [t("address_of"), brokerOf(queue)], [t("stored"), count(state.queues[queue]?.stored, state.queues[queue]?.least)],
    [t("dispatched"), count(state.queues[queue]?.dispatched)], [t("owner"), owners === null ? t("not_known") : owners.length ? owners.map((each) => chip(each)) : t("no_owner")], ...rows,
  ])];
}

/** Sends one message through the control address; main.js listens for `submit`. */
function sendForm({ state, t, selected }) {
  const topics = [...new Set(Object.keys(state.queues).map(topicOf))].filter((each) => !own(each)).sort();
  const line = (name, attributes) => [el("label", { for: `send-${name}` }, t(`send_${name}`)),
    el("input", { id: `send-${name}`, name, autocomplete: "off", "data-key": `send ${name}`, ...attributes })];
  const about = selected?.includes("/") ? topicOf(selected) : topics[0];
  return el("section", { class: "card", "data-key": "send" }, el("h2", null, t("send_title")),
    el("form", { class: "send" },
      line("topic", { required: true, list: "topics", placeholder: about ?? null }), el("datalist", { id: "topics" }, topics.slice(0, MOST_BUTTONS).map((each) => el("option", { value: each }))),
      line("body", { required: true }), line("tag"),
      el("button", { class: "button", type: "submit", "data-key": "send one" }, t("send_one"))));
}

/** Dead letters of a group that was asked for, each to be sent to its original topic again. */
function deadLetters({ state, t, letters }) {
  const groups = Object.keys(state.groups).sort();
  const again = (ids, key) => el("button", { class: "button", "data-ask": `groups/${encodeURIComponent(letters.group)}/resend`, "data-body": JSON.stringify({ ids }), "data-key": `again ${key}` },
    t(ids.length ? "letters_again" : "letters_all"));
  return el("section", { class: "card", "data-key": "letters" }, el("h2", null, t("letters_title")),
    el("form", { class: "send", "data-form": "letters" },
      el("label", { for: "letters-group" }, t("group")),
      el("input", { id: "letters-group", name: "group", autocomplete: "off", required: true, list: "groups", placeholder: groups[0] ?? null, "data-key": "letters group" }),
      el("datalist", { id: "groups" }, groups.slice(0, MOST_BUTTONS).map((each) => el("option", { value: each }))),
      el("button", { class: "button", type: "submit", "data-key": "letters show" }, t("letters_show"))),
    letters && (letters.messages.length === 0 ? el("p", { class: "note" }, t("letters_none", letters)) : [
      table(t("letters_of", letters), [t("send_body"), t("send_topic"), t("action")], letters.messages.map((each) => [
        el("span", { title: each.id }, each.body.slice(0, MOST_SHOWN)), each.properties.DLQ_ORIGIN_TOPIC ?? each.properties.RETRY_TOPIC ?? "–", again([each.id], each.id)])),
      el("p", { class: "note" }, t("letters_stay")), again([], "all")]));
}

/** The events that are about what is selected. */
function about(id) {
  return (event) => event.client_id === id || event.broker === id || event.role === id || event.nameserver === id || event.by === id
    || queueOf(event) === id;
}

/** A selection by the short name of a queue (`broker-a/0`), as a link may have it. */
export function resolve(state, wanted) {
  if (!wanted || wanted in state.roles || wanted in state.clients || wanted in state.queues) return wanted;
  return Object.keys(state.queues).find((each) => shortQueue(each) === wanted && !own(topicOf(each)))
    ?? Object.keys(state.clients).find((each) => short(each) === wanted) ?? wanted;
}

export function draw(place, page) {
  const { state, player, t, timeline } = page;
  const id = page.selected;
  const signature = JSON.stringify([id, page.language, player.at_ms, page.isLive, page.said, page.view, timeline.events.length, page.letters]);
  if (!changed(place, page, signature)) return;
  let details = el("p", { class: "note" }, t("select_hint"));
  if (id && id in state.roles) details = roleFacts(page, id);
  else if (id && id in state.clients) details = clientFacts(page, id);
  else if (id && (id in state.queues || id.includes("/"))) details = queueFacts(page, id);
  update(place,
    el("section", { class: "card" },
      el("h2", null, id ? (id in state.clients || id in state.roles ? id.slice(id.indexOf("@") + 1).slice(0, MOST_SHOWN) : shortQueue(id)) : t("selected")), details,
      page.said && el("p", { class: "note", role: "status" }, page.said),
      id && el("button", { class: "button", "data-select": "", "data-key": "close" }, t("close"))),
    page.isLive && sendForm(page),
    page.isLive && deadLetters(page),
    page.view !== "time" && el("section", { class: "card" }, el("h2", null, t("happened")), eventList(page, SHOWN, id ? about(id) : isStructure)));
}
