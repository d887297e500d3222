"""Lab 6: messages fail; the program has a budget of attempts, and a broker that waits for hours."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from pocketmq.client import Message, Producer
from pocketmq.cluster.labs.program import Program
from pocketmq.cluster.labs.trial import Trial

ATTEMPTS: Final = 5
HOUR_S: Final = 3600
HOP_S: Final = 60

DELAYS_S: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800,
                   3600, 7200)  # fmt: skip
"""Of the delay levels 1 to 18 (B-90)."""

SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"

WAITS_WHY: Final = (
    "the broker chooses delay level 3 + the number of attempts so far, beginning with 10 s (B-83)"
)
BUDGET_WHY: Final = (
    "maxReconsumeTimes counts the deliveries after the first; when they are used up the broker "
    "makes a dead letter (B-82, B-83)"
)
POISON_WHY: Final = (
    "what can never succeed should not wait in the delay queues; a delay level below 0 makes a "
    "dead letter at once (B-83)"
)
HOURS_WHY: Final = (
    "a consumer may choose the delay level of the next attempt (delayLevelWhenNextConsume, B-83)"
)


class Landed(NamedTuple):
    """Where a message is after it failed."""

    level: int
    """Its delay level; 0: it is a dead letter."""

    def __str__(self) -> str:
        if not self.level:
            return "it is in the dead letter topic"
        return f"it waits at delay level {self.level}, {DELAYS_S[self.level - 1]} s"


async def judge(trial: Trial) -> None:
    """See the lab's page."""
    record = trial.record
    calls = _Calls(trial, await trial.topic("jobs"), await trial.group("workers"))
    async with calls.program() as program:
        record.stage()
        waits = (await program.hear('{"waits_s": [...]}')).get("waits_s")
        record.note(f"you predict these waits between attempts: {waits}")
        await calls.send("j-1", '{"job": "j-1"}')
        for attempt in (1, 2):
            landed = await calls.fail(program, "j-1", attempt)
            wait_s = DELAYS_S[landed.level - 1] if landed.level else 0
            # A prediction that is no list must fail the comparison, not the judge.
            said = waits[attempt - 1] if isinstance(waits, list) and waits else waits
            record.expect(
                f"attempt {attempt} failed: {landed}", wanted=wait_s, found=said, why=WAITS_WHY
            )
            await calls.wait(wait_s)
        await calls.succeed(program, "j-1", 3)

        record.stage()
        await calls.send("j-2", '{"job": "j-2"}')
        for attempt in range(1, ATTEMPTS + 1):
            landed = await calls.fail(program, "j-2", attempt)
            is_last = attempt == ATTEMPTS
            # Wrong both for a dead letter too early and for one too late.
            if (landed.level == 0) != is_last:
                record.wrong_step(
                    f"attempt {attempt} of {ATTEMPTS} failed",
                    wanted="a dead letter" if is_last else "another attempt",
                    found=landed, why=BUDGET_WHY,
                )  # fmt: skip
            record.right(f"attempt {attempt} of {ATTEMPTS} failed: {landed}")
            if not is_last:
                wait_s = DELAYS_S[landed.level - 1]
                said = (
                    waits[attempt - 1] if isinstance(waits, list) and len(waits) >= attempt else 0
                )
                record.expect(f"it comes again after {wait_s} s", wanted=wait_s, found=said,
                              why=WAITS_WHY)  # fmt: skip
                await calls.wait(wait_s)

        record.stage()
        await calls.send("j-3", "no JSON {")
        landed = await calls.landed_without_call(program)
        record.expect(
            "the body of j-3 is no JSON, which will not change", wanted=Landed(0), found=landed,
            why=POISON_WHY,
        )  # fmt: skip

        record.stage()
        await calls.send("j-4", '{"job": "j-4"}')
        landed = await calls.fail(program, "j-4", 1, again_after_s=HOUR_S)
        record.expect(
            "the service is closed, for an hour", wanted=Landed(17), found=landed, why=HOURS_WHY
        )
        await calls.wait(HOUR_S)
        await calls.succeed(program, "j-4", 2)


class _Calls:
    def __init__(self, trial: Trial, topic: str, group: str) -> None:
        self._court = trial
        self._record = trial.record
        self._topic = topic
        self._group = group
        self._waiting: Mapping[int, int] = {}
        self._dead = 0

    def program(self) -> Program:
        return self._court.program(
            LAB_TOPIC=self._topic, LAB_GROUP=self._group, LAB_ATTEMPTS=str(ATTEMPTS)
        )

    async def send(self, key: str, body: str) -> None:
        trial = self._court
        # Counted before the send: earlier checks may have left messages in the schedule topic.
        self._waiting, self._dead = await self._levels(), await self._dead_letters()
        async with Producer(
            trial.name("judge"), nameservers=trial.cluster.nameservers, clock=trial.clock
        ) as producer:
            await producer.send(Message(self._topic, body.encode(), keys=key))

    async def fail(
        self, program: Program, job: str, attempt: int, *, again_after_s: int = 0
    ) -> Landed:
        """Wait for an attempt, let it fail, and see where the message goes."""
        await self._called(program, job, attempt)
        # Counted again before the answer, so that any new message is this one.
        self._waiting, self._dead = await self._levels(), await self._dead_letters()
        more = {"again_after_s": again_after_s} if again_after_s else {}
        await program.tell({"ok": False, **more})
        return await self._landed()

    async def succeed(self, program: Program, job: str, attempt: int) -> None:
        """Wait for an attempt, and let it succeed."""
        await self._called(program, job, attempt)
        await program.tell({"ok": True})
        self._record.right(f"attempt {attempt}: {job} is called again, and succeeds")

    async def landed_without_call(self, program: Program) -> Landed:
        """Where a message goes that must not lead to a call."""
        called = asyncio.ensure_future(program.hear("no call at all"))
        landed = asyncio.ensure_future(self._landed())
        try:
            await asyncio.wait([called, landed], return_when=asyncio.FIRST_COMPLETED)
            if called.done():
                self._record.wrong_step(
                    "a body that is no JSON", wanted="no call of the service",
                    found=called.result(), why=POISON_WHY,
                )  # fmt: skip
            return landed.result()
        finally:
            for task in (called, landed):
                task.cancel()
            # Cancelled tasks are awaited: otherwise asyncio would report their errors.
            await asyncio.wait([called, landed])

    async def wait(self, seconds: int) -> None:
        """Let time pass, in hops that nobody is expired in.

        The broker and the nameserver are moved in turn: an hour deadline by deadline would take
        half a minute.
        """
        cluster = self._court.cluster
        # One second more than the delay, since the broker delivers at its next look.
        end_ms = cluster.time_ms() + 1000 * (seconds + 1)
        now_ms = cluster.time_ms()
        while now_ms < end_ms:
            now_ms = min(end_ms, now_ms + 1000 * HOP_S)
            for member in await cluster.roles.clock_members():
                await member.move_to(now_ms)
        await cluster.refresh_time()

    # -- inside -----------------------------------------------------------------------------

    async def _called(self, program: Program, job: str, attempt: int) -> None:
        line = await program.hear(f"the call of {job}, attempt {attempt}")
        wanted = {"call": job, "attempt": attempt}
        if line != wanted:
            self._record.wrong_step(
                "the next call of the service", wanted=wanted, found=line,
                why="the message tells how often it was consumed before (reconsumeTimes)",
            )  # fmt: skip

    async def _landed(self) -> Landed:
        found: list[Landed] = []

        async def has_landed() -> bool:
            if await self._dead_letters() > self._dead:
                found.append(Landed(0))
            before = self._waiting
            # Ends of queues only grow, so a larger one means a new message.
            found.extend(
                Landed(level) for level, count in (await self._levels()).items()
                if count > before.get(level, 0)
            )  # fmt: skip
            return bool(found)

        await self._court.until(
            has_landed,
            "the failed message at a delay level, or as a dead letter",
            "a listener that fails must say so: what it swallows counts as consumed (C-54)",
        )
        return found[0]

    async def _levels(self) -> dict[int, int]:
        """Delay level -> messages that went there so far."""
        async with self._court.admin() as admin:
            if await admin.route(SCHEDULE) is None:
                return {}
            stats = await admin.topic_stats(SCHEDULE)
        # The queue id is the level minus one.
        return {queue.queue_id + 1: bounds.max_offset for queue, bounds in stats.items()}

    async def _dead_letters(self) -> int:
        return await self._court.stored(f"%DLQ%{self._group}")
