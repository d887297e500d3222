/** The page's state as the part of its address after `#`: `#t=12.5&select=broker-a/0&view=queues`. */

const FIELDS = ["view", "t", "select", "speed", "topic", "lang"];

/** What a link says; unknown fields are left out. */
export function read(hash) {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const link = {};
  for (const name of FIELDS) if (found.has(name)) link[name] = found.get(name);
  if (link.t !== undefined && !Number.isFinite(Number(link.t))) delete link.t;
  return link;
}

/** The link of a state; empty fields are left out. */
export function write(state) {
  const parts = [];
  for (const name of FIELDS) {
    const value = state[name];
    if (value === undefined || value === null || value === "") continue;
    parts.push(`${name}=${encodeURIComponent(value).replaceAll("%2F", "/")}`);
  }
  return `#${parts.join("&")}`;
}
