/** The feed of a running cluster: what is there now, then each event; and its control address. */

export class Live {
  /** `onEvents` gets lists of events, `onState` `open`, `lost`. */
  constructor(names, onEvents, onState) {
    this.source = new EventSource("/events");
    this.waiting = [];
    const take = (message) => {
      let data;
      try {
        data = JSON.parse(message.data);
      } catch {
        return;
      }
      if (this.waiting.push({ event: message.type, ...data }) === 1) {
        setTimeout(() => { onEvents(this.waiting.splice(0)); }, 50);  // one drawing for a burst
      }
    };
    for (const name of names) this.source.addEventListener(name, take);
    this.source.onopen = () => onState("open");
    this.source.onerror = () => onState("lost");
  }

  close() {
    this.source.close();
  }
}

/** Ask the control address. Throws an Error with the words of its answer. */
export async function ask(method, path, body) {
  const answer = await fetch(path, {
    method,
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ?? `${answer.status}`);
  return found;
}
