/** Kill, freeze, cut, slow a disk, lose a notification: through the control address of a running cluster. */

import { el, table, update } from "watch/dom.js";
import { cutWords } from "watch/views/cluster.js";

export const name = "break";

/** A button that asks the control address when it is pressed; main.js listens for `data-ask`. */
function asking(page, label, method, path, body, key, style = "") {
  return el("button", { class: `button ${style}`.trim(), "data-ask": path, "data-method": method, "data-body": body === undefined ? null : JSON.stringify(body),
    "data-key": key, "aria-disabled": page.isLive ? null : "true" }, label);
}

/** The faults of one role. */
export function faultButtons(page, id) {
  const { state, t } = page;
  const role = state.roles[id];
  const path = `roles/${encodeURIComponent(id)}`;
  const button = (label, end, body, style) => asking(page, label, "POST", `${path}/${end}`, body, `${id} ${end} ${JSON.stringify(body ?? "")}`, style);
  const fault = (label, rule) => asking(page, label, "POST", "faults", { ...rule, role: id }, `${id} fault ${rule.do}`);
  const buttons = [];
  if (role.state === "frozen") buttons.push(button(t("thaw"), "thaw", undefined, "cold"));
  else if (role.state === "running") buttons.push(button(`❄ ${t("freeze")}`, "freeze", undefined, "cold"));
  if (role.state === "ended") buttons.push(button(t("restart"), "restart"));
  else buttons.push(button(`✕ ${t("kill")}`, "kill", undefined, "danger"));
  if (role.kind === "broker" && role.state === "running") {
    buttons.push(button(t("cut_clients"), "partition", { other: "clients" }));
    for (const other of Object.keys(state.roles).filter((each) => state.roles[each].kind === "nameserver").sort()) {
      buttons.push(button(t("cut_from", { other }), "partition", { other }));
    }
    buttons.push(fault(t("slow_disk"), { do: "slow-fsync", delay_ms: 500 }));
    buttons.push(fault(t("lose_notification"), { do: "lose", code: 40, times: 1 }));
  }
  return el("div", { class: "buttons" }, buttons);
}

function ruleWords(rule) {
  return [rule.do, rule.role, rule.other && `– ${rule.other}`, rule.delay_ms && `${rule.delay_ms} ms`, rule.code && `code ${rule.code}`].filter(Boolean).join(" ");
}

export function draw(place, page) {
  const { state, t } = page;
  const signature = JSON.stringify([page.language, state.roles, page.cuts, page.isLive, page.faults, state.faults, page.said]);
  if (place.dataset.drawn === signature && place.firstChild) return;
  place.dataset.drawn = signature;
  const roles = Object.keys(state.roles).sort((one, other) => state.roles[one].kind.localeCompare(state.roles[other].kind) || one.localeCompare(other));
  const holding = Object.entries(state.faults).filter(([, each]) => each.holds);
  const told = holding.map(([id, { do: what, role, other, fired }]) => ({ rule: { id, do: what, role, other }, fired: fired ? { [role || "*"]: fired } : {} }));
  const rules = page.faults ?? (page.isLive ? null : told);
  update(place,
    el("section", { class: "card" },
      el("h2", null, t("break_title")),
      !page.isLive && el("p", { class: "warning" }, t("break_recorded")),
      table(t("break_title"), [t("process"), t("state"), t("action")], roles.map((id) => [
        el("span", null, id), page.cut.has(id) && state.roles[id].state === "running" ? cutWords(page, id) : t(`state_${state.roles[id].state}`), faultButtons(page, id)]), { class: "hidden-text" })),
    el("section", { class: "card" },
      el("h2", null, t("rules")),
      rules === null ? el("p", { class: "note" }, t("not_known")) : rules.length === 0 ? el("p", { class: "note" }, t("no_rules")) : [
        table(t("rules"), [t("rule"), t("does"), t("fired"), t("action")], rules.map(({ rule, fired }) => [
          rule.id, ruleWords(rule), Object.entries(fired).map(([role, times]) => `${role} ${times}`).join(", ") || "0",
          asking(page, t("clear"), "DELETE", `faults/${encodeURIComponent(rule.id)}`, undefined, `clear ${rule.id}`)]), { class: "hidden-text" }),
        asking(page, t("clear_faults"), "DELETE", "faults", undefined, "clear all")]));
}
