"""Declares each operation of the control address, with the types of request and answer.

The application, the OpenAPI document and the table in docs/control.md are made from `OPERATIONS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec

from pocketmq.cluster.control_address.declared_groups import GroupDescription
from pocketmq.cluster.steering.shape import MAX_ADVANCE_S
from pocketmq.cluster.steering.snapshots import SnapshotInfo
from pocketmq.cluster.topic_changes import MAX_QUEUES
from pocketmq.operation.faults.rule import FaultRule
from pocketmq.protocol.scalars import MessageType

Method = Literal["GET", "POST", "DELETE"]

MAX_SPEED: Final = 3600
"""How fast a clock runs by itself at most: an hour each second."""


class Health(msgspec.Struct, forbid_unknown_fields=True):
    """The process is alive."""

    status: str = "up"


class Readiness(msgspec.Struct, forbid_unknown_fields=True):
    """Whether clients can work; status 503 while they cannot."""

    ready: bool
    missing: list[str]
    """Sentences about what is missing."""


class Role(msgspec.Struct, forbid_unknown_fields=True):
    """One nameserver, controller or broker."""

    name: str
    role: str
    state: str
    """`running`, `frozen` or `ended`."""
    address: str


class ClusterDescription(msgspec.Struct, forbid_unknown_fields=True):
    """Description of the cluster."""

    nameservers: str
    """The value of NAMESRV_ADDR for clients."""
    clock: str
    time_ms: int
    data: str
    roles: list[Role]


class Topic(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to create."""

    name: str
    queues: Annotated[int, msgspec.Meta(ge=1, le=MAX_QUEUES)] = 4
    message_type: MessageType | None = None
    """What RocketMQ's proxy lets through to it; a new topic is for NORMAL."""


class QueueBounds(msgspec.Struct, forbid_unknown_fields=True):
    """One queue of a topic."""

    broker: str
    queue: int
    min_offset: int
    max_offset: int


class TopicDescription(msgspec.Struct, forbid_unknown_fields=True):
    """A topic and its queues."""

    name: str
    messages: int
    """Number of stored messages in all queues."""
    queues: list[QueueBounds]


class TopicMade(TopicDescription, forbid_unknown_fields=True, omit_defaults=True):
    """A topic that was created, or whose queues were changed."""

    queues_before: dict[str, int] = {}
    """By broker: how many queues it had, where it was there with another number; else left out."""


class NewMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A message to send."""

    topic: str
    body: str
    tag: str | None = None
    key: str | None = None
    delay_level: Annotated[int, msgspec.Meta(ge=0, le=18)] = 0
    properties: dict[str, str] = {}
    """Of the application."""
    origin: str | None = None
    """Of a dead letter: the topic that it was first sent to, where `message resend` sends it."""


class Stored(msgspec.Struct, forbid_unknown_fields=True):
    """Where a message was stored."""

    broker: str
    queue: int
    offset: int
    id: str


class Resend(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters of a group to send again."""

    ids: list[str] = []
    """Unique ids or offset ids; empty: all."""


class Resent(msgspec.Struct, forbid_unknown_fields=True):
    """The copies of dead letters, which themselves stay."""

    done: str
    messages: list[Stored]
    """In the order in which the dead letters were stored."""


class StoredMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A message as it is stored."""

    topic: str
    broker: str
    queue: int
    offset: int
    id: str
    body: str
    """The body as UTF-8; invalid bytes become U+FFFD."""
    tag: str | None
    key: str | None
    born_ms: int
    stored_ms: int
    reconsume_times: int
    properties: dict[str, str]


class Clock(msgspec.Struct, forbid_unknown_fields=True):
    """The cluster's time."""

    kind: str
    """`real` or `manual`."""
    now_ms: int
    speed: float
    """Protocol seconds for one real second while it runs by itself; 0: it stands, until moved."""
    next: list[Deadline]
    """The next timers of roles and clients, earliest first; empty on real time."""


class Deadline(msgspec.Struct, forbid_unknown_fields=True):
    """The earliest timer of one role or client."""

    role: str
    at_ms: int
    in_s: float
    what: str
    """Name of the task that waits for it."""


class Advance(msgspec.Struct, forbid_unknown_fields=True):
    """How far to move a manual clock; give one of the two fields."""

    seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_ADVANCE_S)] | None = None
    to_ms: int | None = None


class Run(msgspec.Struct, forbid_unknown_fields=True):
    """How fast a manual clock shall run by itself."""

    speed: Annotated[float, msgspec.Meta(gt=0, le=MAX_SPEED)] = 60.0
    """Protocol seconds for one real second."""


class Moved(msgspec.Struct, forbid_unknown_fields=True):
    """The result of moving the clock."""

    now_ms: int
    fired: list[Deadline]
    """The deadlines that were reached, in order; `in_s` counts from the begin of the move."""
    more_fired: int
    """Number of deadlines that are not listed."""


class Logs(msgspec.Struct, forbid_unknown_fields=True):
    """The end of a role's log."""

    role: str
    lines: list[str]


class SeedGroup(msgspec.Struct, forbid_unknown_fields=True):
    """A consumer group to create."""

    name: str


class SeedOffset(msgspec.Struct, forbid_unknown_fields=True):
    """How far a group shall be, once the messages are there."""

    group: str
    topic: str
    offset: Annotated[int, msgspec.Meta(ge=0)] | Literal["end"]
    """Of the next message that it consumes; `end`: it has consumed all."""
    queue: int | None = None
    """Of this queue on each broker; left out: of all."""


class Seed(msgspec.Struct, forbid_unknown_fields=True):
    """Topics and groups to create, then messages to send, then offsets to set.

    A group that only an offset names is created too.
    """

    topics: list[Topic] = []
    groups: list[SeedGroup] = []
    messages: list[NewMessage] = []
    """Those for `%DLQ%group` are dead letters of that group."""
    offsets: list[SeedOffset] = []


class Seeded(msgspec.Struct, forbid_unknown_fields=True):
    """Number of topics, groups and messages that were created, and of offsets that were set."""

    topics: int
    messages: int
    groups: int = 0
    offsets: int = 0


class FaultState(msgspec.Struct, forbid_unknown_fields=True):
    """A fault rule that holds."""

    rule: FaultRule
    fired: dict[str, int]
    """How often, at each role that runs."""


class Partition(msgspec.Struct, forbid_unknown_fields=True):
    """Whom a role is parted from."""

    other: str
    """Another role, `others` (every other role), or `clients`."""


class NewSnapshot(msgspec.Struct, forbid_unknown_fields=True):
    """A snapshot to save."""

    name: str
    with_secrets: bool = False
    """Also the users and rules of brokers, with their passwords."""


class Done(msgspec.Struct, forbid_unknown_fields=True):
    """The operation succeeded."""

    done: str


class Stopping(msgspec.Struct, forbid_unknown_fields=True):
    """The cluster begins to stop."""

    pid: int
    """Of the process that stops the roles and then ends."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path or the query."""

    name: str
    meaning: str
    place: Literal["path", "query"] = "query"
    required: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation."""

    method: Method
    path: str
    name: str
    """Name of the method of `Operations` that executes it."""
    summary: str
    answer: type[msgspec.Struct]
    is_list: bool = False
    question: type[msgspec.Struct] | None = None
    parameters: tuple[Parameter, ...] = ()

    @property
    def needs_super_user(self) -> bool:
        """Where brokers check who asks: it changes the cluster, or shows what rules protect."""
        return self.method != "GET" or self.answer is StoredMessage


_ROLE = Parameter("role", "name of a role, such as broker-a", "path", required=True)
_TOPIC = Parameter("topic", "name of a topic", "path", required=True)
_GROUP = Parameter("group", "name of a consumer group", "path", required=True)

OPERATIONS = (
    Operation("GET", "/healthz", "health", "The cluster's supervisor runs.", Health),
    Operation(
        "GET",
        "/readyz",
        "ready",
        "Every role is registered and seeding is done; 503 until then.",
        Readiness,
        parameters=(
            Parameter("topic", "this topic must have its route, too"),
            Parameter("group", "this group must have all of its queues, too"),
        ),
    ),
    Operation(
        "GET", "/cluster", "describe", "Roles, addresses, time, folder.", ClusterDescription
    ),
    Operation("POST", "/stop", "stop", "Stop all roles; `pocketmq up` ends.", Stopping),
    Operation(
        "GET", "/topics", "topics", "All but internal topics.", TopicDescription, is_list=True
    ),
    Operation(
        "POST",
        "/topics",
        "create_topic",
        "Create a topic, or change its queues; answers when every nameserver has its route.",
        TopicMade,
        question=Topic,
    ),
    Operation(
        "GET", "/topics/{topic}", "topic", "A topic's queues.", TopicDescription,
        parameters=(_TOPIC,),
    ),
    Operation(
        "DELETE", "/topics/{topic}", "delete_topic", "Delete a topic.", Done, parameters=(_TOPIC,)
    ),
    Operation(
        "GET", "/groups", "groups", "All but built-in groups.", GroupDescription, is_list=True
    ),
    Operation(
        "GET", "/groups/{group}", "group", "A group's members, queues and lag.",
        GroupDescription, parameters=(_GROUP,),
    ),
    Operation(
        "GET", "/groups/{group}/dead-letters", "dead_letters",
        "The last dead letters of a group, oldest first; none is an empty list.",
        StoredMessage, is_list=True,
        parameters=(_GROUP, Parameter("limit", "how many at most [32]")),
    ),
    Operation(
        "POST", "/groups/{group}/resend", "resend",
        "Send dead letters of a group to their original topics, with all retries again.",
        Resent, question=Resend, parameters=(_GROUP,),
    ),
    Operation(
        "GET",
        "/messages",
        "messages",
        "The last messages of a topic, oldest first.",
        StoredMessage,
        is_list=True,
        parameters=(
            Parameter("topic", "name of the topic", required=True),
            Parameter("limit", "how many at most [32]"),
        ),
    ),
    Operation(
        "POST", "/messages", "send", "Send a message.", Stored, question=NewMessage
    ),
    Operation("GET", "/clock", "clock", "The time, and who wants to be woken next.", Clock),
    Operation(
        "POST",
        "/clock/advance",
        "advance",
        "Move a manual clock, deadline by deadline; answers with what fired.",
        Moved,
        question=Advance,
    ),
    Operation(
        "POST", "/clock/next", "next_deadline", "Move a manual clock to the next deadline.", Moved
    ),
    Operation(
        "POST", "/clock/run", "run_clock", "Let a manual clock run by itself.", Clock,
        question=Run,
    ),
    Operation("POST", "/clock/freeze", "freeze_clock", "Let it stand still again.", Clock),
    Operation(
        "GET", "/roles/{role}/logs", "logs", "The end of a role's log.", Logs,
        parameters=(_ROLE, Parameter("lines", "how many [50]")),
    ),
    Operation(
        "POST", "/roles/{role}/freeze", "freeze", "Stop its reading and timers.", Done,
        parameters=(_ROLE,),
    ),
    Operation(
        "POST", "/roles/{role}/thaw", "thaw", "Let it go on.", Done, parameters=(_ROLE,)
    ),
    Operation(
        "POST", "/roles/{role}/kill", "kill", "End it as kill -9 does.", Done,
        parameters=(_ROLE,),
    ),
    Operation(
        "POST", "/roles/{role}/restart", "restart", "Start it again on its port and files.", Done,
        parameters=(_ROLE,),
    ),
    Operation(
        "POST",
        "/roles/{role}/partition",
        "partition",
        "Part it from another role, from `others` or from `clients`, until the rule is cleared.",
        FaultRule,
        question=Partition,
        parameters=(_ROLE,),
    ),
    Operation(
        "GET", "/faults", "list_faults", "Fault rules, and how often each fired.", FaultState,
        is_list=True,
    ),
    Operation(
        "POST", "/faults", "add_fault", "Let a fault rule hold from now on.", FaultRule,
        question=FaultRule,
    ),
    Operation("DELETE", "/faults", "clear_faults", "Take all fault rules back.", Done),
    Operation(
        "DELETE", "/faults/{id}", "clear_fault", "Take one fault rule back.", Done,
        parameters=(Parameter("id", "of the rule, such as r1", "path", required=True),),
    ),
    Operation(
        "GET", "/snapshots", "list_snapshots", "Saved snapshots, oldest first.", SnapshotInfo,
        is_list=True,
    ),
    Operation(
        "POST",
        "/snapshots",
        "save_snapshot",
        "Save stores and KV configuration; brokers are stopped for it, one after the other.",
        SnapshotInfo,
        question=NewSnapshot,
    ),
    Operation(
        "POST",
        "/snapshots/{name}/load",
        "load_snapshot",
        "Put a snapshot in place of what is there.",
        SnapshotInfo,
        parameters=(Parameter("name", "of the snapshot", "path", required=True),),
    ),
    Operation("POST", "/reset", "reset", "Begin again without any data.", Done),
    Operation(
        "POST",
        "/seed",
        "seed",
        "Create topics and groups, send messages, set offsets.",
        Seeded,
        question=Seed,
    ),
)  # fmt: skip
