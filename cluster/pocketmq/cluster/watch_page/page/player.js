/** Where the page stands in time, and how fast it moves. It knows no view. */

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 60];

export class Player {
  /** `timeline` says where time begins and ends; `changed` is called when a frame is to be drawn. */
  constructor(timeline, changed) {
    this.timeline = timeline;
    this.changed = changed;
    this.at_ms = timeline.began_ms;
    this.speed = 1;
    this.playing = false;
    /** Whether it stays at the end of a live feed. */
    this.following = false;
    this.last = 0;
  }

  get seconds() {
    return (this.at_ms - this.timeline.began_ms) / 1000;
  }

  seek(at_ms) {
    this.at_ms = Math.min(Math.max(at_ms, this.timeline.began_ms), this.timeline.ended_ms);
    this.following = false;
    this.changed();
  }

  play() {
    if (this.at_ms >= this.timeline.ended_ms) this.at_ms = this.timeline.began_ms;
    this.playing = true;
    this.following = false;
    this.last = performance.now();
    this.changed();
  }

  pause() {
    this.playing = false;
    this.following = false;
    this.changed();
  }

  /** Stay at the newest event of a live feed. */
  follow() {
    this.playing = false;
    this.following = true;
    this.at_ms = this.timeline.ended_ms;
    this.changed();
  }

  /** To the next event (`1`) or the one before (`-1`) that changes who is there or who owns what. */
  step(direction) {
    this.playing = false;
    const at = this.timeline.neighbour(this.at_ms, direction);
    if (at !== null) this.seek(at);
  }

  /** While it plays, go on to `now`, the time of a frame. Who draws calls it before, so that it never stands where nothing was drawn. */
  move(now) {
    if (!this.playing) return;
    const passed = Math.min(Math.max(now - this.last, 0), 250);  // a hidden tab is not caught up with
    this.last = now;
    this.at_ms = Math.min(this.at_ms + passed * this.speed, this.timeline.ended_ms);
    this.playing = this.at_ms < this.timeline.ended_ms;
  }
}
