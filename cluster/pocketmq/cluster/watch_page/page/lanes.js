/** Who owned each queue of each group from when to when, and why that changed. Pure. */

import { conflicts, topicOf } from "watch/state.js";

const CAUSES = {
  "member-joined": () => "joined",
  "member-left": (event) => (event.how === "closed" || event.how === "unregistered" ? event.how : "left"),
  "member-silent": () => "silent",
};

export class Lanes {
  constructor() {
    /** group -> queue -> [{from_ms, to_ms, owners, unknown, cause}], in moments; the last of each has no end. `unknown`: a member that has told nothing may own it. */
    this.groups = {};
    /** group -> [{moment, client_id, cause, gained, lost, strategy, arithmetic}] */
    this.changes = {};
    /** group -> [{how, client_id, moment}]: members that came and went. */
    this.causes_of = {};
    /** Grows with each change. */
    this.version = 0;
  }

  /** Take an event that has been applied to `state`. */
  add(event, moment, state) {
    const how = CAUSES[event.event]?.(event);
    if (how !== undefined && !event.loaded) {
      const groups = event.group === undefined ? Object.keys(state.groups) : [event.group];
      for (const group of groups) this.#because(group, { how, client_id: event.client_id, moment });
    }
    if (event.event === "rebalanced" && !event.loaded) this.#changed(event, moment, state);
    if (how !== undefined || event.event === "role-stopped" || event.event === "rebalanced" || event.event === "allocated") {
      for (const group of Object.keys(state.groups)) this.#owners(group, moment, state);
    }
  }

  #because(group, cause) {
    const all = (this.causes_of[group] ??= []);
    const last = all.at(-1);  // each broker tells it
    if (last && last.how === cause.how && last.client_id === cause.client_id) return;
    all.push(cause);
    this.version += 1;
  }

  #changed(event, moment, state) {
    const topics = state.groups[event.group]?.allocated[event.client_id] ?? {};
    const moved = [...event.gained ?? [], ...event.lost ?? []].map(topicOf);
    const allocated = Object.entries(topics).filter(([topic]) => moved.length === 0 || moved.includes(topic))
      .map(([, each]) => each).sort((one, other) => other.own.length - one.own.length)[0];
    (this.changes[event.group] ??= []).push({
      moment, client_id: event.client_id, cause: this.causes_of[event.group]?.at(-1) ?? null,
      gained: event.gained ?? [], lost: event.lost ?? [], strategy: allocated?.strategy, arithmetic: allocated?.arithmetic,
    });
    this.version += 1;
  }

  #owners(group, moment, state) {
    const lanes = (this.groups[group] ??= {});
    const isPart = conflicts(state.groups[group]).unknown;
    for (const [queue, owners] of Object.entries(state.groups[group].queues)) {
      const spans = (lanes[queue] ??= []);
      const last = spans.at(-1);
      const unknown = isPart && owners.length === 0;
      if (last && last.owners.join() === owners.join() && last.unknown === unknown) continue;
      if (last) last.to_ms = moment;
      if (last && last.from_ms === moment) spans.pop();
      spans.push({ from_ms: moment, to_ms: null, owners: [...owners], unknown, cause: this.causes_of[group]?.at(-1) ?? null });
      this.version += 1;
    }
  }
}
