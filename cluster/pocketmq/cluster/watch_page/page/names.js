/** Short names, colours and times for people. */

/** A client's name as short as it is still clear: the part behind the address. */
export function short(name) {
  const at = name.indexOf("@");
  const tail = at < 0 ? name : name.slice(at + 1);
  return tail.length > 18 ? `${tail.slice(0, 7)}…${tail.slice(-9)}` : tail;
}

const given = new Map();

/** One of eight colours for a client, by the order in which clients were first drawn. */
export function colour(client) {
  if (!given.has(client)) given.set(client, given.size % 8);
  return `var(--c${given.get(client)})`;
}

export function seconds(ms) {
  const s = ms / 1000;
  return s >= 1000 ? s.toFixed(0) : s.toFixed(s < 100 ? 2 : 1);
}

/** Epoch ms as a time of day with ms, UTC; in a simulation the epoch is small, then as seconds. */
export function clockTime(at_ms) {
  if (!Number.isFinite(at_ms) || at_ms <= 0) return "–";
  if (at_ms < 86_400_000 * 365) return `${seconds(at_ms)} s`;
  return new Date(at_ms).toISOString().slice(11, 23);
}

/** How what is not known is written, wherever a number would stand. */
export const UNKNOWN = "?";

/** A number with its thousands; `?` of what is not known. `least`: there may be more. */
export const count = (number, least = false) => (number === null || number === undefined ? UNKNOWN
  : `${least ? "≥ " : ""}${Number(number).toLocaleString("en-US")}`);

/** Offsets of messages as parts of their queues: `broker-a/0:12-15` for 12, 13 and 14. */
export function queueParts(messages) {
  const byQueue = new Map();
  for (const { broker, queue, offset } of messages) {
    const name = `${broker}/${queue}`;
    byQueue.set(name, [...(byQueue.get(name) ?? []), offset]);
  }
  const parts = [];
  for (const [name, offsets] of byQueue) {
    offsets.sort((one, other) => one - other);
    let begin = offsets[0];
    offsets.forEach((offset, at) => {
      if (offsets[at + 1] === offset + 1) return;
      parts.push(`${name}:${begin}-${offset + 1}`);
      begin = offsets[at + 1];
    });
  }
  return parts;
}
