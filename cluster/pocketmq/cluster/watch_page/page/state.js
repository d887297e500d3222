/**
 * What a cluster looks like at one moment, made from its events. Pure: events in, state out; no
 * document, no clock, no network. `apply` changes the state that it is given; timeline.js keeps copies.
 */

const RECORDS_KEPT = 48;
const OUT_KEPT = 512;
const TROUBLES_KEPT = 16;
const TROUBLE_SHOWN_MS = 2000;

/** The moment of an event, in ms of real time; in a simulation of virtual time. */
export const momentOf = (event) => (Number.isFinite(event.real_us) ? event.real_us / 1000 : event.at_ms);

/** A cluster of which nothing is known yet. */
export function empty() {
  return {
    at_ms: 0,
    count: 0,
    dropped: 0,
    roles: {},    // name -> {kind, state, since_ms, mastery}; of a replica also {broker, id}
    masters: {},  // broker name -> the process that is its master
    clients: {},  // client id -> {kind, group, state, since_ms, status}; of an SDK also {proxy, sdk}
    knows: {},    // nameserver -> {broker: since_ms}
    forgot: {},   // nameserver -> {broker: {at_ms, how}}
    seen: {},     // broker -> {group: {client: true}}
    whole: {},    // nameserver or broker -> true: all that it knows was told, so what it did not tell it does not know
    routes: {},   // client -> {topic: [broker/queue]}
    groups: {},   // group -> {members: {client: {queues}}, queues: {queue: [client]}, allocated, locks, broadcasting}
    // Of these, null is what nothing has told yet: it is drawn as not known, and never as 0.
    queues: {},   // "topic broker/queue" -> {stored, dispatched, least}; least: there may be more
    offsets: {},  // group -> {queue: {pulled, next, committed, out, begun, seen, anew}}
    held: {},     // "group queue" -> since_ms
    stores: {},   // broker -> {end, dispatched, flushed, records: []}
    faults: {},   // rule id -> {do, role, other, fired, fired_ms, holds}; fired_ms is a moment
    troubles: [], // the last: {kind, who, other, from_ms, to_ms}, in moments (timeline.js)
    violated: "", // the words of the first invariant that did not hold
    elected: {},  // broker or "controllers" -> {who, epoch, at_ms}
    totals: { sent: 0, stored: 0, pulled: 0, consumed: 0, committed: 0, again: 0, dead: 0 },
  };
}

/** `topic broker/queue` of an event that names its queue in parts, or null. */
export function queueOf(event) {
  if (event.broker === undefined || event.queue === undefined || event.queue === null) return null;
  return `${event.topic ?? ""} ${event.broker}/${event.queue}`;
}

/** A queue's name without its topic: `broker-a/0`. */
export const shortQueue = (queue) => queue.slice(queue.lastIndexOf(" ") + 1);

/** The topic of a queue's name. */
export const topicOf = (queue) => queue.slice(0, Math.max(queue.lastIndexOf(" "), 0));

/** The broker of a queue's name. */
export const brokerOf = (queue) => shortQueue(queue).replace(/\/-?\d+$/, "");

export function kindOf(name) {
  if (/^(nameserver|namesrv)/.test(name)) return "nameserver";
  if (/^controller/.test(name)) return "controller";
  if (/^proxy/.test(name)) return "proxy";
  return "broker";
}

/** A broker as nameservers list it: its name, and its id if it is no master. */
export const replica = (event) => (event.broker_id ? `${event.broker} #${event.broker_id}` : event.broker);

/** The name under which a process is listed by nameservers, and has queues. */
export const brokerNameOf = (state, process) => state.roles[process]?.broker ?? process;

/** A process as nameservers list it. */
export function listedAs(state, process) {
  const { broker, id } = state.roles[process] ?? {};
  return broker ? replica({ broker, broker_id: id }) : process;
}

/** The process that nameservers list as `broker-a` or `broker-a #2`: several may serve one broker name. */
export const processOf = (state, listed) => state.masters[listed]
  ?? Object.keys(state.roles).find((each) => listedAs(state, each) === listed) ?? listed;

/** The process that told an event of a broker. */
const teller = (state, event) => (state.roles[event.by]?.kind === "broker" ? event.by : processOf(state, event.broker));

/** Whether what runs is a client: its name is a client id. */
const isClient = (name) => name.includes("@");

function roleOf(state, name, at_ms) {
  return (state.roles[name] ??= { kind: kindOf(name), state: "running", since_ms: at_ms, mastery: "" });
}

function clientOf(state, id, kind, group, at_ms) {
  const found = (state.clients[id] ??= { kind, group: group ?? "", state: "running", since_ms: at_ms, status: "" });
  if ((kind === "consumer" || found.kind === "") && kind !== "" && found.kind !== kind) Object.assign(found, { kind, group: group ?? "" });
  return found;
}

function groupOf(state, name) {
  return (state.groups[name] ??= { members: {}, queues: {}, allocated: {}, locks: {}, broadcasting: false });
}

function memberOf(state, event) {
  clientOf(state, event.client_id, "consumer", event.group, event.at_ms);
  return (groupOf(state, event.group).members[event.client_id] ??= { queues: [], unknown: Boolean(event.loaded) });
}

/** The owners of each queue, anew from what the members say. */
function settle(group) {
  const owners = {};
  for (const queue of Object.keys(group.queues)) owners[queue] = [];
  for (const [id, each] of Object.entries(group.members)) {
    for (const queue of each.queues) (owners[queue] ??= []).push(id);
  }
  group.queues = owners;
}

const POWER_CUTS = new Set(["power cut", "power cuts"]);

/** What was only in the page cache is gone. */
function cutPower(store) {
  if (store.flushed === null) {  // nobody knows what was only there
    Object.assign(store, { end: null, dispatched: null });
    return;
  }
  store.end = store.flushed;
  if (store.dispatched !== null) store.dispatched = Math.min(store.dispatched, store.flushed);
  store.records = store.records.filter((each) => each.physical_offset + each.size <= store.flushed);
}

const queueState = (state, name) => (state.queues[name] ??= { stored: null, dispatched: null, least: false });
const storeOf = (state, broker) =>
  (state.stores[broker] ??= { end: null, dispatched: null, flushed: null, records: [] });

/** Bytes of a log that a power cut would take; null where that is not known. */
export const atRisk = ({ end, flushed }) => (end === null || flushed === null ? null : Math.max(end - flushed, 0));

/** So many more are stored in a queue, of which nobody may have told how many it had. */
function moreStored(queue, messages) {
  if (queue.stored === null) queue.least = true;
  queue.stored += messages;
}

/** A group's progress in a queue. */
export function progressOf(state, group, queue) {
  const table = (state.offsets[group] ??= {});
  return (table[queue] ??= { pulled: null, next: null, committed: null, out: [], begun: false, seen: null, anew: false });
}

/**
 * Whether all that a group has of a queue came while this page looked: no earlier pull is in process any more.
 * `seen` is the first offset that was pulled before its eyes; `anew`: its owner began with nothing before its eyes.
 */
export const isWhole = ({ seen, committed, anew }) => seen !== null && (anew || seen === 0 || (committed !== null && committed >= seen));

/** Who owns a queue, of all groups; null where a member has not told which queues it owns. */
export function ownersOf(state, queue) {
  const groups = Object.values(state.groups);
  const owners = groups.flatMap((group) => group.queues[queue] ?? []);
  return owners.length === 0 && groups.some((group) => conflicts(group).unknown) ? null : owners;
}

function begin(progress, offset) {
  if (progress.begun) return;
  Object.assign(progress, { begun: true, pulled: offset, next: offset, out: [] });
}

function leave(state, name, client_id, at_ms, how) {
  const group = groupOf(state, name);
  delete group.members[client_id];
  delete group.allocated[client_id];
  settle(group);
  const found = state.clients[client_id];
  if (found && !Object.values(state.groups).some((each) => client_id in each.members)) {
    Object.assign(found, { state: how, since_ms: at_ms });
  }
}

/** A client that has ended owns nothing, though brokers may still count it as a member. */
function disown(state, client_id) {
  for (const group of Object.values(state.groups)) {
    if (!group.members[client_id]) continue;
    group.members[client_id].queues = [];
    settle(group);
  }
}

function seenAnywhere(state, group, client_id) {
  return Object.values(state.seen).some((groups) => groups[group]?.[client_id]);
}

/** In whose name tools read, this page too: no member has it, and nothing is committed. */
const TOOLS = "TOOLS_CONSUMER";

const TOTALS = { "message-sent": "sent", "message-stored": "stored", "message-pulled": "pulled",
  "message-consumed": "consumed", "message-sent-back": "again", "message-dead": "dead" };

/** Since when something holds; what was read when the page was opened may hold for long. */
const since = (event) => (event.loaded ? null : event.at_ms);

const REDUCERS = {
  "role-started"(state, event) {
    if (isClient(event.role)) {
      const found = clientOf(state, event.role, "", "", event.at_ms);
      Object.assign(found, { state: "running", since_ms: event.at_ms });
      return;
    }
    const found = Object.assign(roleOf(state, event.role, event.at_ms), { state: "running", since_ms: since(event) });
    if (event.kind) found.kind = event.kind;
    if (event.loaded) return;
    state.whole[event.role] = true;  // it begins with nothing
    if (found.kind === "nameserver") state.knows[event.role] ??= {};
  },
  "role-stopped"(state, event) {
    if (isClient(event.role)) {
      Object.assign(clientOf(state, event.role, "", "", event.at_ms), { state: event.how, since_ms: event.at_ms });
      if (event.how === "ended") disown(state, event.role);
      return;
    }
    if (event.how === "ended") {  // what it had in memory is gone
      if (state.knows[event.role]) state.knows[event.role] = {};
      if (state.forgot[event.role]) state.forgot[event.role] = {};
      if (state.seen[event.role]) state.seen[event.role] = {};
      for (const each of Object.values(state.clients)) {  // a killed proxy tells of none that they left
        if (each.proxy === event.role && each.state === "running") Object.assign(each, { state: "silent", since_ms: event.at_ms });
      }
    }
    Object.assign(roleOf(state, event.role, event.at_ms), { state: event.how, since_ms: since(event) });
  },
  "broker-registered"(state, event) {
    if (!event.broker_id && !state.masters[event.broker]) roleOf(state, event.broker, event.at_ms);
    roleOf(state, event.nameserver, event.at_ms).kind = "nameserver";
    if (event.loaded) state.whole[event.nameserver] = true;  // it was asked for all
    (state.knows[event.nameserver] ??= {})[replica(event)] = event.at_ms;
    delete state.forgot[event.nameserver]?.[replica(event)];
  },
  "broker-forgotten"(state, event) {
    roleOf(state, event.nameserver, event.at_ms).kind = "nameserver";
    delete state.knows[event.nameserver]?.[replica(event)];
    (state.forgot[event.nameserver] ??= {})[replica(event)] = { at_ms: event.at_ms, how: event.how ?? "expired" };
  },
  "role-changed"(state, event) {
    const name = event.by in state.roles ? event.by : event.broker;
    Object.assign(roleOf(state, name, event.at_ms), { mastery: event.role, broker: event.broker, id: event.broker_id });
    if (event.role !== "SLAVE") state.masters[event.broker] = name;
    else if (state.masters[event.broker] === name) delete state.masters[event.broker];
  },
  "master-elected"(state, event) {
    state.elected[event.broker] = { who: replica(event), epoch: event.epoch, at_ms: event.at_ms };
  },
  "leader-elected"(state, event) {
    roleOf(state, event.controller, event.at_ms).kind = "controller";
    for (const each of Object.values(state.roles)) if (each.kind === "controller") each.mastery = "";
    state.roles[event.controller].mastery = "LEADER";
    state.elected.controllers = { who: event.controller, epoch: event.term, at_ms: event.at_ms };
  },
  "member-joined"(state, event) {
    memberOf(state, event);
    groupOf(state, event.group).broadcasting = event.model === "BROADCASTING";
    Object.assign(state.clients[event.client_id], { state: "running" });
    if (!event.broker) return;
    const broker = teller(state, event);
    if (event.loaded) state.whole[broker] = true;
    ((state.seen[broker] ??= {})[event.group] ??= {})[event.client_id] = true;
  },
  "member-left"(state, event) {
    if (event.broker) delete state.seen[teller(state, event)]?.[event.group]?.[event.client_id];
    if (!seenAnywhere(state, event.group, event.client_id)) {
      leave(state, event.group, event.client_id, event.at_ms, event.how === "unregistered" ? "left" : "gone");
    }
  },
  "member-silent"(state, event) {
    for (const [group, members] of Object.entries(state.seen[teller(state, event)] ?? {})) {
      if (!members[event.client_id]) continue;
      delete members[event.client_id];
      if (!seenAnywhere(state, group, event.client_id)) {
        leave(state, group, event.client_id, event.at_ms, "silent");
      }
    }
  },
  "sdk-joined"(state, event) {
    const { client_id, kind, group, proxy, sdk, at_ms } = event;
    roleOf(state, proxy, at_ms);
    const found = clientOf(state, client_id, kind, group, at_ms);
    if (found.state !== "running") found.since_ms = at_ms;
    Object.assign(found, { state: "running", proxy, sdk });
  },
  "sdk-left"(state, event) {
    const found = state.clients[event.client_id];
    if (found) Object.assign(found, { state: event.how === "silent" ? "silent" : "left", since_ms: event.at_ms });
  },
  "allocated"(state, event) {
    memberOf(state, event);
    const { strategy, queues, members, own, arithmetic, at_ms } = event;
    const group = groupOf(state, event.group);
    (group.allocated[event.client_id] ??= {})[event.topic] = { strategy, queues, members, own, arithmetic, at_ms };
    for (const queue of queues) group.queues[`${event.topic} ${queue}`] ??= [];
    (state.routes[event.client_id] ??= {})[event.topic] = queues;
  },
  "rebalanced"(state, event) {
    Object.assign(memberOf(state, event), { queues: event.queues, unknown: false });
    settle(groupOf(state, event.group));
    for (const queue of event.gained ?? []) {
      const progress = progressOf(state, event.group, queue);  // its process queue is empty
      Object.assign(progress, { pulled: progress.committed, next: progress.committed, out: [], begun: false, anew: true });
    }
  },
  "queues-locked"(state, event) {
    const { locks } = groupOf(state, event.group);
    for (const queue of event.queues) locks[queue] = event.client_id;
  },
  "queues-unlocked"(state, event) {
    const { locks } = groupOf(state, event.group);
    for (const queue of event.queues) if (locks[queue] === event.client_id) delete locks[queue];
  },
  "route-learned"(state, event) {
    (state.routes[event.client_id] ??= {})[event.topic] = event.queues;
  },
  "fault-began"(state, event) {
    state.faults[event.rule] = { do: event.do, role: event.role ?? "", other: event.other ?? "", fired: 0, fired_ms: 0, holds: true };
  },
  "fault-ended"(state, event) {
    if (state.faults[event.rule]) state.faults[event.rule].holds = false;
  },
  "fault-fired"(state, event) {
    const found = (state.faults[event.rule] ??= { do: event.do, role: event.role, other: "", fired: 0, fired_ms: 0, holds: null });
    found.fired += 1;
    found.fired_ms = momentOf(event);
  },
  "clock-moved"() {},
  "trouble-began"(state, event) {
    const from_ms = momentOf(event);
    state.troubles.push({ kind: event.kind, who: event.who, other: event.other ?? "", from_ms, to_ms: from_ms + (event.lasts_ms ?? 0) });
    if (state.troubles.length > TROUBLES_KEPT) state.troubles.shift();
    if (POWER_CUTS.has(event.kind) && state.stores[event.who]) cutPower(state.stores[event.who]);
  },
  "invariant-violated"(state, event) {
    state.violated ||= event.words;
  },

  "message-sent"(state, event) {
    clientOf(state, event.client_id, "producer", event.group, event.at_ms);
    state.totals.sent += event.count ?? 1;
  },
  "send-answered"(state, event) {
    const found = state.clients[event.client_id];
    if (found) found.status = event.status;
  },
  "message-stored"(state, event) {
    const queue = queueState(state, queueOf(event));
    Object.assign(queue, { stored: Math.max(queue.stored, event.offset + 1), least: false });
    state.totals.stored += 1;
    const store = storeOf(state, teller(state, event));
    store.end = Math.max(store.end, event.physical_offset + event.size);
    if (event.physical_offset === 0) {  // the first of all: nothing can have been on the disk before
      store.flushed ??= 0;
      store.dispatched ??= 0;
    }
    store.records.push(event);
    if (store.records.length > RECORDS_KEPT) store.records.shift();
  },
  "message-dispatched"(state, event) {
    const queue = queueState(state, queueOf(event));
    queue.dispatched = Math.max(queue.dispatched, event.offset + event.count);
    Object.assign(queue, { stored: Math.max(queue.stored, queue.dispatched), least: false });
    const store = storeOf(state, teller(state, event));
    if (event.physical_end) store.dispatched = event.physical_end;  // 0: only the queue was looked at
  },
  "message-pulled"(state, event) {
    if (event.group === TOOLS) return;
    state.totals.pulled += event.count;
    delete state.held[`${event.group} ${queueOf(event)}`];
    if (event.how === "pop") return;
    const progress = progressOf(state, event.group, queueOf(event));
    begin(progress, event.offset);
    progress.seen = Math.min(progress.seen ?? event.offset, event.offset);
    progress.pulled = Math.max(progress.pulled, event.end ?? event.offset + event.count);
  },
  "pull-held"(state, event) {
    state.held[`${event.group} ${queueOf(event)}`] = event.at_ms;
  },
  "pull-woken"(state, event) {
    delete state.held[`${event.group} ${queueOf(event)}`];
  },
  "message-consumed"(state, event) {
    state.totals.consumed += event.status === "success" ? 1 : 0;
    if (event.attempt || event.status === "suspend") return;
    const progress = progressOf(state, event.group, queueOf(event));
    begin(progress, event.offset);
    consumed(progress, event.offset, event.offset + 1);
  },
  "offset-committed"(state, event) {
    if (!event.loaded) state.totals.committed += 1;
    const progress = progressOf(state, event.group, queueOf(event));
    progress.committed = event.offset;
    if (progress.next !== null && progress.next >= event.offset) return;
    progress.next = event.offset;  // what was only counted, or consumed before anybody watched
    progress.pulled = Math.max(progress.pulled, event.offset);
    progress.out = progress.out.filter((each) => each > event.offset);
  },
  "message-sent-back"(state) {
    state.totals.again += 1;
  },
  "message-dead"(state) {
    state.totals.dead += 1;
  },
  "store-flushed"(state, event) {
    const store = storeOf(state, teller(state, event));
    store.flushed = Math.max(store.flushed, event.physical_to);
    // What is on the disk says nothing of what may lie behind it.
    if (store.end !== null || Number.isFinite(event.physical_end)) store.end = Math.max(store.end, event.physical_end ?? 0, store.flushed);
    if (Number.isFinite(event.dispatched)) store.dispatched = Math.max(store.dispatched, event.dispatched);
  },
  "events-counted"(state, event) {
    const messages = event.messages || event.count;
    state.sampled = true;
    if (TOTALS[event.kind]) state.totals[TOTALS[event.kind]] += messages;
    const name = queueOf({ ...event, broker: event.broker ?? event.by });
    if (name === null) return;
    if (event.kind === "message-stored") moreStored(queueState(state, name), messages);
    if (event.kind === "message-dispatched" && queueState(state, name).dispatched !== null) queueState(state, name).dispatched += messages;
    if (!event.group || event.group === TOOLS) return;
    const progress = progressOf(state, event.group, name);
    if (event.kind === "message-pulled" && progress.pulled !== null) progress.pulled += messages;
    if (event.kind === "message-consumed" && progress.next !== null) progress.next += messages;
  },
  /** A tenth of a second of a recording that is too long to be loaded: events by kind and place. */
  "frame"(state, event) {
    for (const [kind, places] of Object.entries(event.counts)) {
      const number = Object.values(places).reduce((sum, each) => sum + each, 0);
      if (TOTALS[kind]) state.totals[TOTALS[kind]] += number;
      for (const [place, each] of Object.entries(places)) {
        const found = kind === "message-stored" && /^(\S+) (.+)\/(\d+)$/.exec(place);
        if (!found) continue;
        // What of them is dispatched, nothing tells: events are counted here, and one may be about many messages.
        moreStored(queueState(state, `${found[2]} ${brokerNameOf(state, found[1])}/${found[3]}`), each);
      }
    }
  },
  "events-dropped"(state, event) {
    state.dropped += event.count;
  },
};

/** Mark offsets from `from` up to `to` as consumed: in order, or kept until what is before them is. */
function consumed(progress, from, to) {
  progress.pulled = Math.max(progress.pulled, to);
  for (let offset = Math.max(from, progress.next); offset < to; offset += 1) {
    if (offset === progress.next) progress.next += 1;
    else if (!progress.out.includes(offset) && progress.out.length < OUT_KEPT) progress.out.push(offset);
  }
  if (progress.out.length === 0) return;
  progress.out.sort((one, other) => one - other);
  while (progress.out.length && progress.out[0] <= progress.next) {
    progress.next = Math.max(progress.next, progress.out.shift() + 1);
  }
}

/** Change a state by an event; one whose name is unknown, or that lacks fields, only moves the time. */
export function apply(state, event) {
  if (event.at_ms > state.at_ms) state.at_ms = event.at_ms;
  if (!event.loaded) state.count += 1;
  const reducer = Object.hasOwn(REDUCERS, event.event) ? REDUCERS[event.event] : null;
  if (reducer === null) return state;
  try {
    reducer(state, event);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    state.damaged = (state.damaged ?? 0) + 1;
  }
  return state;
}

/** The names of all events that change a state. */
export const NAMES = [...Object.keys(REDUCERS), "member-notified", "notification-heard", "message-acknowledged"];

/** A clock that runs by itself is moved by less at a time. */
const LEAP_MS = 5000;
const STRUCTURE = new Set(["role-started", "role-stopped", "broker-registered", "broker-forgotten",
  "role-changed", "master-elected", "leader-elected", "member-joined", "member-left", "member-silent", "sdk-joined", "sdk-left",
  "rebalanced", "fault-began", "fault-ended", "fault-fired", "trouble-began", "invariant-violated", "message-dead"]);

/** Whether an event changes who is there or who owns what; the others are traffic. */
export const isStructure = (event) => STRUCTURE.has(event.event)
  || (event.event === "clock-moved" && event.at_ms - event.from_ms >= LEAP_MS);

/** The troubles that last at a moment; one without length is shown for a while. */
export const troublesAt = (state, moment) => state.troubles.filter((each) => each.from_ms <= moment && moment < Math.max(each.to_ms, each.from_ms + TROUBLE_SHOWN_MS));

/** Of a simulation: troubles that cut links. */
const CUTS = new Set(["partition", "links cut", "links cut one way", "machines cut off"]);
/** A fault of which only the firing was told is taken to hold for so long. */
const FIRED_SHOWN_MS = 5000;

/** Links that are cut at a moment: {who, other}, where other may be `clients`, `others` (all other roles), or empty: all of them. */
export function cutsAt(state, moment) {
  const faults = Object.values(state.faults).filter((each) => each.do === "partition"
    && (each.holds ?? (each.fired_ms <= moment && moment - each.fired_ms < FIRED_SHOWN_MS)));
  const all = [...faults.map(({ role, other }) => ({ who: role, other })),
    ...troublesAt(state, moment).filter(({ kind }) => CUTS.has(kind)).map(({ who, other }) => ({ who, other }))];
  return all.filter((each, at) => all.findIndex(({ who, other }) => who === each.who && other === each.other) === at);
}

/** Queues of a group that nobody owns, those that more than one owns, and whether a member's queues are not known. */
export function conflicts(group) {
  const nobody = [], several = [];
  const unknown = Object.values(group.members).some((each) => each.unknown);
  for (const [queue, owners] of Object.entries(group.queues)) {
    if (owners.length === 0 && !unknown) nobody.push(queue);
    if (owners.length > 1 && !group.broadcasting) several.push(queue);
  }
  return { nobody, several, unknown };
}

const ownerOf = (event, state) => event.client_id ?? state.groups[event.group]?.queues[queueOf(event)]?.[0];

/** Where an event travels: {from, to, kind, count}, or null if it stays where it happens. */
export function journey(event, state) {
  switch (event.event) {
    case "message-sent":
      return { from: event.client_id, to: processOf(state, event.broker), kind: "sent", count: event.count ?? 1 };
    case "message-pulled": {
      const owner = ownerOf(event, state);
      return owner ? { from: teller(state, event), to: owner, kind: "pulled", count: event.count } : null;
    }
    case "member-notified":
      return { from: teller(state, event), to: event.client_id, kind: "told", count: 1 };
    case "offset-committed": {
      const owner = ownerOf(event, state);
      return owner ? { from: owner, to: teller(state, event), kind: "committed", count: 1 } : null;
    }
    case "broker-registered":
      return { from: processOf(state, replica(event)), to: event.nameserver, kind: "registered", count: 1 };
    case "sdk-joined":
      return { from: event.client_id, to: event.proxy, kind: "registered", count: 1 };
    case "member-joined":
      return { from: event.client_id, to: teller(state, event), kind: "registered", count: 1 };
    default:
      return null;
  }
}
