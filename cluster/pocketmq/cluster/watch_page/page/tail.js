/** Messages of one topic as they come: an answer of the control address, read line by line. Keeps the newest. */

import { queueParts } from "watch/names.js";

const KEPT = 200;
const AGAIN_MS = 2000;

export class Tail {
  /** `changed` is called when there is something to draw. */
  constructor(topic, changed) {
    this.topic = topic;
    this.changed = changed;
    /** Newest first: messages, and between them `passed_over` and `pause`. Each has a `key`. */
    this.rows = [];
    this.problem = "";
    this.hasBegun = false;
    /** Stopped by hand, or because of a mistake: nothing is tried again by itself. */
    this.isStopped = false;
    /** Differs when there is something else to draw. */
    this.version = 0;
    this.reading = null;
    this.isAfterPause = false;
    this.marks = 0;
  }

  /** Whether to read: a page at which nobody looks costs nothing. */
  run(isWanted) {
    if (isWanted && !this.reading) this.#read();
    else if (!isWanted && this.reading) {
      this.reading.abort();
      this.reading = null;
      this.#tell();
    }
  }

  /** The address of what is shown, or of the whole topic, as JSON lines. */
  address(isWhole) {
    const parts = isWhole ? [] : queueParts(this.rows.filter((each) => each.body !== undefined));
    return `/watch/export?topic=${encodeURIComponent(this.topic)}${parts.map((each) => `&part=${encodeURIComponent(each)}`).join("")}`;
  }

  async #read() {
    const aborter = this.reading = new AbortController();
    this.isStopped = false;
    while (this.reading === aborter) {
      try {
        await this.#lines(aborter.signal);
      } catch (error) {
        if (this.reading !== aborter) return;
        this.problem = error.message;
        if (error.isMistake) {
          this.isStopped = true;
          this.reading = null;
        }
      }
      this.#tell();
      await new Promise((done) => { setTimeout(done, AGAIN_MS); });
    }
  }

  async #lines(signal) {
    const answer = await fetch(`/watch/messages?topic=${encodeURIComponent(this.topic)}`, { signal });
    if (!answer.ok) {
      const { error } = await answer.json();
      throw Object.assign(new Error(error ?? `${answer.status}`), { isMistake: answer.status < 500 });
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line) this.#take(JSON.parse(line));
      this.#tell();
    }
  }

  #take({ begun, message, passed_over, problem }) {
    if (begun) {
      this.hasBegun = true;
      this.problem = "";
      this.isAfterPause = this.rows.length > 0;
    }
    if (problem) this.problem = problem;
    if (passed_over) this.#add({ passed_over, key: `mark ${this.marks += 1}` });
    if (!message) return;
    const key = `${message.broker}/${message.queue} ${message.offset}`;
    // Who begins again is told of the last ones again.
    if (this.rows.some((each) => each.key === key)) return;
    if (this.isAfterPause) this.#add({ pause: true, key: `mark ${this.marks += 1}` });
    this.isAfterPause = false;
    this.#add({ ...message, key });
  }

  #add(row) {
    this.rows.unshift(row);
    this.rows.length = Math.min(this.rows.length, KEPT);
  }

  #tell() {
    this.version += 1;
    this.changed();
  }
}
