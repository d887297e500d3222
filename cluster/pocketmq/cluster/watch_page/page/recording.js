/**
 * Reads recordings: lines of JSON, the first a header. A recording that is damaged, cut or of another
 * version is read as far as it goes, and `problems` says in a key of words.js what was found.
 */

export const VERSION = 1;

/** Parse a recording's text. `problems`: [{key, line?, version?}]. */
export function parse(text) {
  const lines = text.split("\n");
  const problems = [];
  const events = [];
  let header = {};
  const first = decoded(lines[0]);
  if (first && "pocketmq_recording" in first) {
    header = first;
    if (first.pocketmq_recording !== VERSION) {
      problems.push({ key: "problem_version", version: String(first.pocketmq_recording) });
    }
  } else {
    problems.push({ key: "problem_header" });
    if (isEvent(first)) events.push(first);
  }
  const cut = lines.at(-1) !== "";  // each line ends in a newline
  let bad = 0, badAt = 0;
  for (let at = 1; at < lines.length; at += 1) {
    if (lines[at] === "") continue;
    const found = decoded(lines[at]);
    if (isEvent(found)) events.push(found);
    else if (at === lines.length - 1 && cut) problems.push({ key: "problem_cut", line: at + 1 });
    else if ((bad += 1) === 1) badAt = at + 1;
  }
  if (bad) problems.push({ key: "problem_lines", count: bad, line: badAt });
  if (events.length === 0) problems.push({ key: "problem_nothing" });
  return { header, events, problems };
}

function decoded(line) {
  try {
    const found = JSON.parse(line);
    return found !== null && typeof found === "object" && !Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}

/** Epoch ms that a Date can have. */
const LAST_MS = 8.64e15;

const TEXTS = ["by", "client_id", "group", "topic", "broker", "nameserver", "controller", "role", "who", "other", "kind", "strategy", "arithmetic", "words", "rule", "do"];
const LISTS = ["queues", "members", "own", "gained", "lost", "refused"];

/** Whether it is an event whose numbers can be counted on, and whose names are texts and none of them changes all objects. */
export function isEvent(found) {
  return found !== null && typeof found === "object" && typeof found.event === "string" && Math.abs(found.at_ms) <= LAST_MS
    && Object.values(found).every((each) => (typeof each === "number" ? Number.isSafeInteger(each) : each !== "__proto__"))
    && TEXTS.every((name) => [undefined, null].includes(found[name]) || typeof found[name] === "string")
    && LISTS.every((name) => found[name] === undefined || (Array.isArray(found[name]) && found[name].every((each) => typeof each === "string")));
}
