/** Events in words. */

import { short } from "watch/names.js";
import { shortQueue, queueOf } from "watch/state.js";
import { SENTENCES, fill } from "watch/words.js";

export function sentence(event, language) {
  const texts = SENTENCES[language] ?? SENTENCES.en;
  if (!Object.hasOwn(texts, event.event)) return event.event;
  const queue = queueOf(event);
  return fill(texts[event.event], {
    ...event,
    who: short(event.client_id ?? event.by ?? "?"),
    queue: queue === null ? "?" : `${event.topic} ${shortQueue(queue)}`,
    count: event.count ?? 1,
    owned: event.queues?.length ?? 0,
    known: event.queues?.length ?? 0,
    sides: [event.role, event.other].filter(Boolean).map(short).join(" – "),
    moved: event.from_ms === undefined ? "?" : ((event.at_ms - event.from_ms) / 1000).toFixed(1),
    attempt: event.attempt ?? 0,
    arithmetic: event.arithmetic ?? "",
    how: event.how ?? "",
    trouble: troubleWords(event),
  });
}

/** A trouble of a simulation, and between whom. */
export const troubleWords = ({ kind, who, other }) => [kind, [who, other].filter(Boolean).map(short).join(" – ")].filter(Boolean).join(": ");

/** Why the members of a group began to share anew, in words. */
export function causeWords(cause, t) {
  if (!cause) return t("cause_start");
  return t(`cause_${cause.how}`, { who: short(cause.client_id ?? "?") });
}
