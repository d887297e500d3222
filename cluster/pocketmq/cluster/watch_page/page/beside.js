/** A second recording beside the first, at the same moment: the same seed with and without a broken line. */

import { el } from "watch/dom.js";
import { Timeline } from "watch/timeline.js";

export class Beside {
  /** `found`: a parsed recording; `line`: {file, old, new}, what the first one has broken. */
  constructor(page, found, line) {
    this.line = line;
    this.timeline = new Timeline();
    this.timeline.load(found);
    /** The page as the views of this recording see it: its own time line and state, all else shared. */
    this.page = Object.assign(Object.create(page), { timeline: this.timeline, lags: new Map() });
    this.place = el("div");
  }

  /** Of which line of the code the two differ. */
  #words(t) {
    return el("p", { class: "info" }, t("broken_line", this.line), " ", el("del", null, el("code", null, this.line.old)), " → ", el("ins", null, el("code", null, this.line.new)));
  }

  /** Both recordings in columns, and what is broken in the first. */
  columns(first, t) {
    this.place = el("div", { class: "second" });
    return [this.#words(t), ...[[t("with_fault"), first], [t("without_fault"), this.place]].map(([title, place]) =>
      el("section", { class: "column", "aria-label": title }, el("h2", null, title), place))];
  }

  draw(view, moment) {
    this.page.state = this.timeline.at(moment);
    this.page.cut = this.page.cutOff();
    view.draw(this.place, this.page);
  }
}
