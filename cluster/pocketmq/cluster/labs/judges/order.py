"""Lab 5: the steps of orders must be applied in order, whoever consumes them."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from pocketmq.client import Message, Producer
from pocketmq.cluster.labs.program import Line, Program
from pocketmq.cluster.labs.trial import Trial
from pocketmq.cluster.labs.verdict import Record

STEPS: Final = ("created", "paid", "shipped")

Answer = Literal["ok", "stale"]

LOCK_S: Final = 61
SILENT_S: Final = 135

BUSY_WHY: Final = (
    "in order means: nothing later of the queue before this message is done; an orderly listener "
    "that fails gets the same message again (C-58, C-59)"
)
FENCE_WHY: Final = (
    "the token must be the same whenever and by whomever a message is consumed, and grow from "
    "message to message of a queue: a clock or a counter of the process does not; what does?"
)
STALE_WHY: Final = (
    "stale means that this step was applied before: the message is done, and the queue must go on"
)


class Applied(NamedTuple):
    """A request of the program."""

    order: str
    step: str
    token: int

    def __str__(self) -> str:
        return f"{self.order} {self.step}, token {self.token}"


class Ledger:
    """The service that the program calls. It refuses tokens that are not above the last.

    Args:
        record: Gets the first wrong step.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._applied: dict[str, list[str]] = {}
        self._tokens: dict[str, int] = {}

    def has(self, order: str, step: str) -> bool:
        """Whether a step was applied."""
        return step in self._applied.get(order, [])

    def take(self, asked: Applied, who: str) -> Answer:
        """Apply a step, or refuse it.

        Raises:
            WrongStepError: What is applied would not be in order, or was refused and never applied.
        """
        done = self._applied.setdefault(asked.order, [])
        highest = self._tokens.get(asked.order, -1)
        # An equal token is refused too: the same token means the same message.
        if asked.token <= highest:
            # The step was refused and never applied, so it is lost.
            if asked.step not in done:
                self._record.wrong_step(
                    f"{who}: {asked} is refused: {highest} was seen before",
                    wanted="a token above it, for this step was never applied",
                    found=f"token {asked.token}", why=FENCE_WHY,
                )  # fmt: skip
            return "stale"
        wanted = STEPS[len(done)] if len(done) < len(STEPS) else "nothing more"
        if asked.step != wanted:
            self._record.wrong_step(
                f"{who}: {asked} is applied after {', '.join(done) or 'nothing'}",
                wanted=f"{asked.order} {wanted}", found=f"{asked.order} {asked.step}",
                # A repeated step means a wrong token; a skipped one means that a failure was taken
                # for success.
                why=FENCE_WHY if asked.step in done else BUSY_WHY,
            )  # fmt: skip
        self._tokens[asked.order] = asked.token
        done.append(asked.step)
        return "ok"


async def judge(trial: Trial) -> None:
    """See the lab's page."""
    record, cluster = trial.record, trial.cluster
    shop = _Shop(trial, await trial.topic("orders"), await trial.group("shop"))

    record.stage()
    await shop.send("o-1", "o-2")
    async with shop.program() as first:
        for _ in range(6):
            asked = await shop.hear(first, "A")
            await shop.answer(first, asked, "A")
            record.right(f"A: {asked} is applied")

        record.stage()
        await shop.send("o-3")
        await shop.serve(first, "A", ("o-3", "created"))
        busy = await shop.hear(first, "A")
        await first.tell({"ok": False, "why": "busy"})
        record.note(f"A: {busy}: the service is busy, and applies nothing")
        again = await shop.hear(first, "A")
        record.expect(
            "A: the next request", wanted=(busy.order, busy.step),
            found=(again.order, again.step), why=BUSY_WHY,
        )  # fmt: skip
        await shop.answer(first, again, "A")
        await shop.serve(first, "A", ("o-3", "shipped"))

        record.stage()
        await shop.send("o-4")
        await shop.serve(first, "A", ("o-4", "created"))
        asked = await shop.hear(first, "A")
        # Applied, but the answer never arrives, so the next owner repeats the step.
        shop.ledger.take(asked, "A")
        record.note(f"A: {asked} is applied; A is killed before it gets the answer")
    await cluster.advance(LOCK_S)
    record.note("A's lock of the queue outlived it for 60 s")
    async with shop.program() as second:
        record.note("B is started")
        await shop.serve(second, "B", ("o-4", "shipped"))

        record.stage()
        await shop.send("o-5")
        await shop.serve(second, "B", ("o-5", "created"))
        late = await shop.hear(second, "B")
        # The judge has its request now, and delivers it after another process has become the owner.
        second.freeze()
        record.note(f"B: {late} is on its way to the service, and slow; B's process hangs")
        await cluster.advance(LOCK_S)
        record.note("60 s without renewal: B's lock of the queue has expired")
        # In two moves, so that the ends of the lock and of the membership are separate in the
        # notes.
        await cluster.advance(SILENT_S - LOCK_S)
        record.note("120 s without a heartbeat: B is no member any more")
        async with shop.program() as third:
            record.note("C is started")
            await shop.serve(third, "C", ("o-5", "shipped"))
            answer = shop.ledger.take(late, "B, late")
            record.expect(
                f"B's request arrives at last: {late}", wanted="stale", found=answer, why=FENCE_WHY
            )


class _Shop:
    def __init__(self, trial: Trial, topic: str, group: str) -> None:
        self.ledger = Ledger(trial.record)
        self._court = trial
        self._record = trial.record
        self._topic = topic
        self._group = group
        self._refused: set[tuple[str, Applied]] = set()

    def program(self) -> Program:
        return self._court.program(LAB_TOPIC=self._topic, LAB_GROUP=self._group)

    async def send(self, *orders: str) -> None:
        trial = self._court
        async with Producer(
            trial.name("judge"), nameservers=trial.cluster.nameservers, clock=trial.clock
        ) as producer:
            for step in STEPS:
                # Orders alternate, which exposes a program that goes on after a failure.
                for order in orders:
                    body = f'{{"order": "{order}", "step": "{step}"}}'
                    await producer.send(Message(self._topic, body.encode(), keys=order))

    async def hear(self, program: Program, who: str) -> Applied:
        """The next request that is not about something applied before."""
        while True:
            asked = self._applied(await program.hear(f"{who}'s next request"))
            # A repeated step is answered as a service would, but is no progress.
            if not self.ledger.has(asked.order, asked.step):
                return asked
            await self.answer(program, asked, who)

    async def answer(self, program: Program, asked: Applied, who: str) -> None:
        """Let the ledger decide."""
        answer = self.ledger.take(asked, who)
        if answer == "ok":
            await program.tell({"ok": True})
            return
        # The first repetition is the redelivery of the lab; a second one shows that "stale" was
        # taken for a failure.
        if (who, asked) in self._refused:
            self._record.wrong_step(
                f"{who}: {asked} comes again, although it was refused as stale",
                wanted="success for RocketMQ, and the next message", found="the same once more",
                why=STALE_WHY,
            )  # fmt: skip
        self._refused.add((who, asked))
        self._record.note(f"{who}: {asked} was delivered again, and is refused as stale")
        await program.tell({"ok": False, "why": "stale"})

    async def serve(self, program: Program, who: str, until: tuple[str, str]) -> None:
        """Answer requests until a step is applied."""
        while not self.ledger.has(*until):
            asked = await self.hear(program, who)
            await self.answer(program, asked, who)
            self._record.right(f"{who}: {asked} is applied")

    def _applied(self, line: Line) -> Applied:
        order, step, token = (line.get(name) for name in ("apply", "step", "token"))
        # `isinstance` would accept True as a number.
        if isinstance(order, str) and isinstance(step, str) and type(token) is int:
            return Applied(order, step, token)
        self._record.wrong_step(
            "a request to the service", wanted='{"apply": "o-1", "step": "paid", "token": 7}',
            found=line, why="the token is a whole number; the page says what it is for",
        )  # fmt: skip
