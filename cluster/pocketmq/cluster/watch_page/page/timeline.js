/**
 * Events in order, and the state at any moment. Pure.
 *
 * A moment is in ms of real time, of which all processes of a machine have one; in a simulation it is
 * virtual. Protocol time (`at_ms`) may stand still for long, so nothing could be scrubbed by it.
 *
 * A copy of the state is kept every `EVERY` events, so a moment costs at most that many `apply`.
 */

import { apply, empty, isStructure, momentOf } from "watch/state.js";
import { Lanes } from "watch/lanes.js";

const EVERY = 1500;

export class Timeline {
  constructor() {
    this.events = [];
    this.moments = [];
    this.began_ms = 0;
    this.ended_ms = 0;
    this.lanes = new Lanes();
    this.newest = empty();
    this.copies = [{ index: 0, state: empty() }];
    this.structure = [];
    /** Of a recording that is too long: single events around the moment, {event, moment}. */
    this.details = null;
    this.cursor = { index: 0, state: empty() };
  }

  /**
   * Take more events; one that is older than the newest is shown at the newest's moment.
   * `loaded`: they say what was there when the page was opened. That is no news, and is listed and counted nowhere.
   */
  add(events, loaded = false) {
    for (const each of events) {
      const taken = loaded ? { ...each, loaded } : each;
      const moment = momentOf(taken);
      if (this.events.length === 0) {
        this.began_ms = moment;
        this.ended_ms = moment;
      }
      this.ended_ms = Math.max(moment, this.ended_ms);
      this.events.push(taken);
      this.moments.push(this.ended_ms);
      if (isStructure(taken) && !loaded) this.structure.push(this.ended_ms);
      apply(this.newest, taken);
      this.lanes.add(taken, this.ended_ms, this.newest);
      if (this.events.length % EVERY === 0) {
        this.copies.push({ index: this.events.length, state: structuredClone(this.newest) });
      }
    }
  }

  /** Take a recording that was parsed: its roles, which are there from the beginning, and its events. */
  load({ header, events }) {
    for (const role of Array.isArray(header.roles) ? header.roles : []) this.expect(role, header.began_ms);
    this.add(events);
  }

  /** A role that is known to be there from the beginning. */
  expect(role, at_ms) {
    if (typeof role !== "string") return;
    for (const state of [this.newest, this.copies[0].state, this.cursor.state]) {
      apply(state, { event: "role-started", loaded: true, role, at_ms: Number.isFinite(at_ms) ? at_ms : 0 });
    }
  }

  /** Forget the oldest half once there are more than so many events. */
  trim(most) {
    if (this.events.length <= most) return;
    const copy = this.copies.find((each) => each.index >= this.events.length - most / 2);
    if (copy === undefined || copy.index === 0) return;
    const { index } = copy;
    this.events.splice(0, index);
    this.moments.splice(0, index);
    this.copies = this.copies.filter((each) => each.index >= index).map(({ index: at, state }) => ({ index: at - index, state }));
    this.cursor = { index: 0, state: structuredClone(this.copies[0].state) };
    this.began_ms = this.moments[0];
    this.structure = this.structure.filter((each) => each >= this.began_ms);
  }

  /** Number of events up to a moment. */
  indexAt(moment) {
    let low = 0, high = this.events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.moments[middle] <= moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The state at a moment. The caller must not change it, and must not keep it. */
  at(moment) {
    const index = this.indexAt(moment);
    if (index === this.events.length) return this.newest;
    let from = this.cursor;
    const copy = this.copies[Math.min(Math.floor(index / EVERY), this.copies.length - 1)];
    if (index < from.index || copy.index > from.index) {
      from = { index: copy.index, state: structuredClone(copy.state) };
    }
    for (; from.index < index; from.index += 1) apply(from.state, this.events[from.index]);
    this.cursor = from;
    return from.state;
  }

  /** The events after one moment up to another, at most `most`, evenly taken; and one in how many. */
  between(from, to, most = Infinity, wanted = () => true) {
    const found = this.details?.filter((each) => each.moment > from && each.moment <= to && wanted(each.event)) ?? [];
    for (let at = this.indexAt(from), end = this.indexAt(to); at < end; at += 1) {
      if (!this.events[at].loaded && wanted(this.events[at])) found.push({ event: this.events[at], moment: this.moments[at] });
    }
    if (found.length <= most) return { events: found, each: 1 };
    const each = Math.ceil(found.length / most);
    return { events: found.filter((_, at) => at % each === 0), each };
  }

  /** The time of the next event of the structure after a moment, or of the one before; or null. */
  neighbour(moment, direction) {
    const all = this.structure;
    let low = 0, high = all.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (direction > 0 ? all[middle] <= moment : all[middle] < moment) low = middle + 1;
      else high = middle;
    }
    const found = direction > 0 ? all[low] : all[low - 1];
    return found ?? null;
  }

  /** How many events each of `bins` equal parts of the time has, for the line that is scrubbed. */
  density(bins) {
    const counts = new Array(bins).fill(0);
    const length = Math.max(this.ended_ms - this.began_ms, 1);
    this.events.forEach((event, index) => {
      if (event.loaded) return;
      const at = Math.floor(((this.moments[index] - this.began_ms) / length) * bins);
      counts[Math.min(Math.max(at, 0), bins - 1)] += event.count ?? 1;
    });
    return counts;
  }
}
