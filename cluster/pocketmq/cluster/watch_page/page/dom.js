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
  return el("div", { class: attributes?.window ? "scrolls window" : "scrolls", "data-window": attributes?.window, tabindex: 0, role: "group", "aria-label": caption },
    el("table", null,
      el("caption", { class: attributes?.class }, caption),
      el("thead", null, el("tr", null, head.map((each) => el("th", { scope: "col" }, whole(each))))),
      el("tbody", null, rows.map((row) => el("tr", row.attributes,
        (row.cells ?? row).map((cell, at) => (at ? el("td", null, whole(cell)) : el("th", { scope: "row" }, whole(cell)))))))));
}

const SHORT = 28;

/** A list as text. A line does not end inside an item that is short. */
export function items(list) {
  return list.split(", ").flatMap((each, at, all) => {
    const text = at < all.length - 1 ? `${each},` : each;
    return [at > 0 && " ", each.length <= SHORT ? el("span", { class: "item" }, text) : text];
  });
}

/** Text in which no line ends at the hyphen of a name. */
export function unbroken(text) {
  return text.split(/( +)/).map((each) => (each.includes("-") && each.length <= SHORT ? el("span", { class: "item" }, each) : each));
}

const whole = (cell) => (typeof cell === "string" ? unbroken(cell) : cell);

/** Text in which `words` between backticks are code. */
export function withCode(text) {
  return text.split("`").map((each, at) => (at % 2 ? el("code", null, each) : each));
}

/** Does what replaces elements of `place`; the keyboard stays at the element with the same `data-key`. */
function keepingFocus(place, replace) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  replace();
  if (focused === undefined || document.activeElement?.dataset?.key === focused) return;
  [...place.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused)?.focus({ preventScroll: true });
}

/** Replaces all that `place` shows. */
export function show(place, ...children) {
  keepingFocus(place, () => place.replaceChildren(...children.flat(Infinity).filter((each) => each)));
}

/**
 * Has `place` show these children, and changes only what differs: what stays the same stays the same
 * element, with its focus, its scrolling, and the mouse above it. Children with a `data-key` are found by it.
 */
export function update(place, ...children) {
  keepingFocus(place, () => become(place, children.flat(Infinity).filter((each) => each)));
}

const alike = (one, other) => one.nodeName === other.nodeName && one.dataset?.key === other.dataset?.key;

function become(place, wanted) {
  const byKey = new Map();
  for (const each of place.childNodes) if (each.dataset?.key !== undefined) byKey.set(each.dataset.key, each);
  let at = place.firstChild;
  for (const next of wanted) {
    const found = next.dataset?.key === undefined ? at : byKey.get(next.dataset.key);
    if (!found || !alike(found, next)) {
      place.insertBefore(next, at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else place.insertBefore(found, at);
    if (found.nodeType === Node.TEXT_NODE) {
      if (found.data !== next.data) found.data = next.data;
      continue;
    }
    for (const { name } of [...found.attributes]) if (!next.hasAttribute(name)) found.removeAttribute(name);
    for (const { name, value } of next.attributes) if (found.getAttribute(name) !== value) found.setAttribute(name, value);
    become(found, [...next.childNodes]);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

const REST_MS = 200;

/** Whether `place` is to be drawn anew: its signature is another one; while time moves on, not more often than 5 times a second. */
export function changed(place, page, signature) {
  if (place.dataset.drawn === signature && place.firstChild) return false;
  const moving = page.player.playing || page.player.following;
  if (moving && place.firstChild && performance.now() - Number(place.dataset.drawnAt) < REST_MS) {
    page.redraw();
    return false;
  }
  place.dataset.drawn = signature;
  place.dataset.drawnAt = performance.now();
  return true;
}
