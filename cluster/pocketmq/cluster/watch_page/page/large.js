/**
 * A recording that is too long to be loaded whole: its index first, then by range the lines that
 * change who is there, and single events around the moment that is looked at.
 */

import { isEvent } from "watch/recording.js";
import { apply, isStructure, momentOf } from "watch/state.js";

const STRUCTURE = ["role-started", "role-stopped", "broker-registered", "broker-forgotten", "role-changed", "master-elected",
  "leader-elected", "member-joined", "member-left", "member-silent", "allocated", "rebalanced", "queues-locked", "queues-unlocked", "route-learned", "fault-began", "fault-ended", "fault-fired", "clock-moved",
  "trouble-began", "invariant-violated", "message-dead", "events-dropped"];
const GAP_BYTES = 128 * 1024;
const AT_ONCE = 6;
const LOOKED_FOR_SENDERS = 8;
const WINDOW_MS = 1500;
const REST_MS = 80;
const MOST_WINDOW_BYTES = 4 * 1024 * 1024;

/** Frames that lie close to each other, as ranges of bytes. */
export function ranges(frames) {
  const found = [];
  for (const { offset, size } of frames) {
    const last = found.at(-1);
    if (last && offset - last.to <= GAP_BYTES) last.to = offset + size;
    else found.push({ from: offset, to: offset + size });
  }
  return found;
}

function lines(text, problems) {
  const events = [];
  for (const line of text.split("\n")) {
    if (line === "") continue;
    try {
      const event = JSON.parse(line);
      if (isEvent(event)) events.push(event);
    } catch {
      problems.bad += 1;
    }
  }
  return events;
}

async function part(from, to) {
  const answer = await fetch("/watch/recording", { headers: { Range: `bytes=${from}-${to - 1}` } });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.text();
}

/** The first event of each producer, from some frames over the whole time. */
async function senders(frames, bad) {
  const sending = frames.filter((each) => "message-sent" in each.counts);
  const some = sending.filter((_, at) => at % Math.ceil(sending.length / LOOKED_FOR_SENDERS) === 0);
  const firsts = new Map();
  for (const { offset, size } of some) {
    for (const event of lines(await part(offset, offset + size), bad)) {
      if (event.event === "message-sent" && !firsts.has(event.client_id)) firsts.set(event.client_id, event);
    }
  }
  return [...firsts.values()];
}

export class Large {
  constructor(index, overview) {
    this.frames = index.frames;
    this.overview = overview;
    this.details = { from: 0, to: -1, events: [], moments: [] };
    this.fetching = false;
    this.cursor = null;
    this.looked = NaN;
  }

  static async open(source) {
    const answer = await fetch("/watch/index");
    const index = await answer.json();
    if (!answer.ok) throw new Error(index.error);
    const bad = { bad: 0 };
    const first = index.frames[0]?.offset ?? 0;
    let header = {};
    try {
      header = JSON.parse((await part(0, Math.max(first, 1))).split("\n")[0]);
    } catch { /* the problems of the source say so */ }
    const wanted = ranges(index.frames.filter((frame) => STRUCTURE.some((kind) => kind in frame.counts)));
    const structure = [];
    for (let at = 0; at < wanted.length; at += AT_ONCE) {
      const texts = await Promise.all(wanted.slice(at, at + AT_ONCE).map(({ from, to }) => part(from, to)));
      for (const text of texts) structure.push(...lines(text, bad).filter((each) => isStructure(each) || STRUCTURE.includes(each.event)));
    }
    structure.push(...await senders(index.frames, bad));
    const all = [...index.frames.map((frame) => ({ event: "frame", ...frame, count: frame.events })), ...structure];
    all.sort((one, other) => momentOf(one) - momentOf(other));
    const problems = (source.problems ?? []).map((text) => ({ key: "problem_told", text }));
    return new Large(index, { header, events: all, problems });
  }

  /** The state at a moment, with what the single events around it tell in addition. */
  detailed(state, moment) {
    const { from, to, events } = this.details;
    if (moment < from || moment > to) return state;
    let { cursor } = this;
    if (cursor?.events !== events || cursor.moment > moment || cursor.base !== state.count) {
      cursor = { events, base: state.count, index: 0, state: structuredClone(state) };
    }
    for (; cursor.index < events.length && momentOf(events[cursor.index]) <= moment; cursor.index += 1) {
      const event = events[cursor.index];
      if (!isStructure(event) && !STRUCTURE.includes(event.event) && event.event !== "events-counted") apply(cursor.state, event);
    }
    cursor.moment = moment;
    this.cursor = cursor;
    cursor.state.totals = state.totals;
    return cursor.state;
  }

  /** Whether a moment is looked at for a while, and not only on the way of a scrub. */
  async #rests(moment, moves) {
    this.looked = moment;
    if (moves) return true;
    await new Promise((done) => { setTimeout(done, REST_MS); });
    return this.looked === moment && !this.fetching;
  }

  /** Fetch the single events just before a moment, and call `come` when they are there; `moves`: it plays. */
  async wantedAt(moment, timeline, moves, come) {
    if (this.fetching || (moment <= this.details.to && moment - 700 >= this.details.from)) return;
    if (!(await this.#rests(moment, moves))) return;
    const near = this.frames.filter((each) => each.real_us / 1000 > moment - WINDOW_MS && each.real_us / 1000 <= moment + WINDOW_MS);
    const kept = [];
    let bytes = 0;
    for (const frame of near) if ((bytes += frame.size) <= MOST_WINDOW_BYTES) kept.push(frame);
    this.fetching = true;
    try {
      const found = [];
      for (const { from, to } of ranges(kept)) found.push(...lines(await part(from, to), { bad: 0 }));
      this.details = { from: moment - WINDOW_MS, to: moment + WINDOW_MS, events: found.sort((one, other) => momentOf(one) - momentOf(other)) };
      timeline.details = this.details.events.map((event) => ({ event, moment: momentOf(event) }));
      come();
    } catch {
      this.details = { from: moment - WINDOW_MS, to: moment + WINDOW_MS, events: [] };
    } finally {
      this.fetching = false;
    }
  }
}
