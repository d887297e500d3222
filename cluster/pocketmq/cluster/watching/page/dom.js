/** Makes elements. Text is always set as text, so nothing in a recording can become markup. */

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** An HTML element: `el("p", {class: "note"}, "text", other)`. */
export function el(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * A table whose head and cells are texts or elements; it scrolls sideways where it is too wide.
 * With `{class: "hidden-text"}` its caption is only for those who do not see it.
 */
export function table(caption, head, rows, attributes) {
  return el("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": caption },
    el("table", null,
      el("caption", { class: attributes?.class }, caption),
      el("thead", null, el("tr", null, head.map((each) => el("th", { scope: "col" }, each)))),
      el("tbody", null, rows.map((row) => el("tr", row.attributes,
        (row.cells ?? row).map((cell, at) => (at ? el("td", null, cell) : el("th", { scope: "row" }, cell))))))));
}

/**
 * Replaces what `place` shows, keeping the keyboard's focus on the element with the same `data-key`,
 * and how far each scrolling region was scrolled.
 */
export function show(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const scrolled = [...place.querySelectorAll(".scrolls")].map((each) => each.scrollLeft);
  place.replaceChildren(...children.flat(Infinity).filter((each) => each));
  [...place.querySelectorAll(".scrolls")].forEach((each, at) => { each.scrollLeft = scrolled[at] ?? 0; });
  if (focused !== undefined) {
    const again = [...place.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused);
    if (again) again.focus({ preventScroll: true });
  }
}
