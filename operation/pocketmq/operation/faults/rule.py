"""What a fault rule says: which calls it concerns, when it fires, and what happens then.

FaultRule(do="fail", role="broker-a", code="SEND_MESSAGE", nth=3, with_code="SYSTEM_BUSY")
FaultRule(do="lose", code="NOTIFY_CONSUMER_IDS_CHANGED", probability=0.5, seed=7)
FaultRule(do="partition", role="broker-a", other="nameserver-1")
FaultRule(do="partition", role="broker-a-2", other="others")
FaultRule(do="slow-fsync", role="broker-a", delay_ms=800)
"""

from __future__ import annotations

import difflib
from typing import Annotated, Final, Literal, TypeAlias, get_args

import msgspec

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.runtime.errors import CallerError

Deed: TypeAlias = Literal[
    "fail", "delay", "drop", "lose", "duplicate", "reset",
    "slow-fsync", "disk-full", "disk-error", "partition",
]  # fmt: skip

NETWORK_DEEDS: Final = frozenset({"fail", "delay", "drop", "lose", "duplicate", "reset"})
DISK_DEEDS: Final = frozenset({"slow-fsync", "disk-full", "disk-error"})

CLIENTS: Final = "clients"
"""The other side of a partition from everybody who is no role of the cluster."""

OTHERS: Final = "others"
"""The other side of a partition from every other role of the cluster."""

MAX_DELAY_MS: Final = 600_000

ALIKE: Final[dict[int, frozenset[int]]] = {
    RequestCode.SEND_MESSAGE: frozenset(
        {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
    ),
    RequestCode.PULL_MESSAGE: frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}),
}
"""Codes that a rule about the first of them concerns too: newer forms of the same request."""


class WrongFaultError(CallerError):
    """A rule contradicts itself; the message says what to write."""


def check_deed(do: str) -> None:
    """Pass what a rule can do.

    Raises:
        WrongFaultError: It is no `Deed`.
    """
    if do not in get_args(Deed):
        raise WrongFaultError(
            f"there is no fault named {do!r}; choose from {', '.join(get_args(Deed))}"
        )


class FaultRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One fault. What is left out concerns every call."""

    do: Deed
    """`fail` answers with `with_code` and does not process; `delay` processes `delay_ms` later;
    `drop` processes and loses the answer; `lose` loses the request, as where it leaves a role (a
    notification) so where it arrives; `duplicate` processes twice; `reset` ends the connection
    unprocessed. `slow-fsync`, `disk-full` and `disk-error` are the broker's disk. `partition`
    holds back all that `role` and `other` say to each other."""

    role: str | None = None
    """The role at which it happens; every role when left out."""
    other: str | None = None
    """Of a partition: another role, `others` (every other role), or `clients`."""
    code: int | str | None = None
    """Request code, as number or name; see `ALIKE`."""
    topic: str | None = None
    group: str | None = None
    """Of consumers or producers."""
    nth: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Fires at this call of those that fit, counted from 1, and at no other unless `times`."""
    times: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Fires at most so often; with `nth`, from that call on."""
    probability: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    seed: int = 0
    """Decides what `probability` draws; each role draws a series of its own."""
    with_code: int | str = int(ResponseCode.SYSTEM_ERROR)
    """Response code of `fail`, as number or name."""
    remark: str = "a fault rule says so"
    delay_ms: Annotated[int, msgspec.Meta(ge=0, le=MAX_DELAY_MS)] = 0
    """Of `delay` and `slow-fsync`, in real time: what a network or disk takes is on no clock."""
    id: str = ""
    """Given by the cluster: r1, r2, ..."""

    def checked(self) -> FaultRule:
        """The same with codes as numbers.

        Raises:
            WrongFaultError: It contradicts itself, or a code has no such name.
        """
        # Without a delay such a rule would fire, be counted, and change nothing.
        if self.do in ("delay", "slow-fsync") and not self.delay_ms:
            raise WrongFaultError(
                f"the fault {self.do} needs a delay; set delay_ms, such as 800 (--delay-ms 800)"
            )
        if self.do == "partition":
            if not self.role or not self.other or self.role == self.other:
                raise WrongFaultError(
                    "a partition needs two different sides; name one side in the field role, and "
                    "the second side in the field other"
                )
            # Frames of a partition are held and not judged, so there is nothing to count.
            if self.nth or self.times or self.probability != 1 or self.code is not None:
                raise WrongFaultError(
                    "a partition lasts until it is cleared; set only role and other, and leave "
                    "out all other fields"
                )
        elif self.other is not None:
            raise WrongFaultError("only a partition can have the field other; leave the field out")
        # The disk does not know for which request it writes.
        if self.do in DISK_DEEDS and (self.code is not None or self.topic or self.group):
            raise WrongFaultError(
                f"the fault {self.do} is about the disk, which knows no code, topic or group; "
                "leave these fields out"
            )
        return msgspec.structs.replace(
            self,
            code=None if self.code is None else _number(self.code, RequestCode),
            with_code=_number(self.with_code, ResponseCode),
        )

    @property
    def codes(self) -> frozenset[int] | None:
        """Request codes that fit, of a rule that was checked; None: all."""
        if self.code is None:
            return None
        return ALIKE.get(int(self.code), frozenset({int(self.code)}))


class Firing(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule fired."""

    number: int
    """Of this role's firings, from 1."""
    rule: str
    do: Deed
    role: str
    at_ms: int
    """Protocol time of the role."""
    code: int | None = None
    topic: str | None = None
    group: str | None = None
    path: str | None = None
    """Of a disk fault."""


def _number(code: int | str, codes: type[RequestCode] | type[ResponseCode]) -> int:
    if isinstance(code, int):
        return code
    text = code.strip()
    # Response codes may be negative.
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        return int(codes[text.upper()])
    except KeyError:
        kind = "request" if codes is RequestCode else "response"
        near = _like(text.upper(), [each.name for each in codes])
        advice = f"write {' or '.join(near)}" if near else "docs/generated/codes.md lists them"
        raise WrongFaultError(f"there is no {kind} code named {code!r}; {advice}") from None


def _like(text: str, names: list[str]) -> list[str]:
    """At most three names that somebody may have meant; the shortest that begin so come first."""
    begin = sorted((each for each in names if each.startswith(text)), key=len)
    inside = sorted((each for each in names if text in each), key=len)
    near = difflib.get_close_matches(text, names)
    # An empty text is inside every name.
    return list(dict.fromkeys([*begin, *inside, *near]))[:3] if text else []
