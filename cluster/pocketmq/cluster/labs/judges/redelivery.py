"""Lab 4: payments are delivered more than once; the program's book must have each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from pocketmq.client import Message, Producer
from pocketmq.cluster.labs.program import Program
from pocketmq.cluster.labs.trial import Trial
from pocketmq.runtime.words import counted

AMOUNT: Final = 10

TWICE_WHY: Final = (
    "a producer whose answer is lost sends again: another message with the same payment; only the "
    "payment's own number tells (T-1)"
)
AGAIN_WHY: Final = (
    "the broker learns what is consumed by offsets, sent every 5 s; what was consumed after the "
    "last of them is delivered again (C-68)"
)
HALF_WHY: Final = (
    "a note that a payment is known and the payment itself must be written in one transaction; a "
    "kill between the two loses it or doubles it"
)


async def judge(trial: Trial) -> None:
    """See the lab's page."""
    record = trial.record
    topic, group = await trial.topic("payments"), await trial.group("bank")
    bank = _Bank(trial, topic, group)

    record.stage()
    await bank.send([f"p-{number}" for number in (1, 2, 3, 3, 4, 5, 6)])
    record.note("p-1 to p-6 are sent, p-3 twice: its producer missed the first answer")
    async with bank.program() as program:
        await bank.until_done(program, ["p-1", "p-2", "p-3", "p-3", "p-4", "p-5", "p-6"])
        await program.terminate()
    await bank.check_book(6, TWICE_WHY)

    record.stage()
    await bank.send([f"p-{number}" for number in range(7, 13)])
    async with bank.program() as program:
        # Killed between the book and the answer, so that the broker must deliver p-9 again.
        await bank.until_done(program, [], stop_at=("done", "p-9"))
        record.note("p-9 is in the book; SIGKILL, before the program can tell the broker")
    await bank.go_on(["p-9", "p-10", "p-11", "p-12"], "p-9")
    await bank.check_book(12, AGAIN_WHY)

    record.stage()
    await bank.send([f"p-{number}" for number in range(13, 19)])
    async with bank.program() as program:
        await bank.until_done(program, [], stop_at=("got", "p-15"))
        record.note("p-15 was delivered; SIGKILL, before anything is done about it")
    await bank.go_on(["p-15", "p-16", "p-17", "p-18"], "p-15")
    await bank.check_book(18, HALF_WHY)


class _Bank:
    def __init__(self, trial: Trial, topic: str, group: str) -> None:
        self._court = trial
        self._record = trial.record
        self._env = {"LAB_TOPIC": topic, "LAB_GROUP": group}
        self._topic = topic

    def program(self, ask: str = "consume") -> Program:
        return self._court.program(LAB_ASK=ask, **self._env)

    async def send(self, payments: Sequence[str]) -> None:
        trial = self._court
        async with Producer(
            trial.name("shop"), nameservers=trial.cluster.nameservers, clock=trial.clock
        ) as producer:
            for payment in payments:
                body = f'{{"payment": "{payment}", "amount": {AMOUNT}}}'
                await producer.send(Message(self._topic, body.encode(), keys=payment))

    async def until_done(
        self, program: Program, awaited: Sequence[str], *, stop_at: tuple[str, str] | None = None
    ) -> None:
        """Answer each line until all that is awaited is done, or a line comes to stop at."""
        left = Counter(awaited)
        while left or stop_at:
            line = await program.hear('{"got": ...} or {"done": ...}')
            # An empty object has no first pair.
            [(what, payment), *_] = line.items() or [("", "")]
            if what not in ("got", "done") or not isinstance(payment, str):
                self._record.wrong_step(
                    "the program says what it does", wanted='{"got": "p-1"} or {"done": "p-1"}',
                    found=line, why="the judge decides by these lines when to kill it",
                )  # fmt: skip
            if (what, payment) == stop_at:
                return
            if what == "done":
                left -= Counter([payment])
            # The program waits for this line, so the judge decides between which steps it is
            # killed.
            await program.tell({"go": True})

    async def go_on(self, awaited: Sequence[str], again: str) -> None:
        """Start it again, until everything was delivered."""
        self._record.note("the program is started again")
        async with self.program() as program:
            await self.until_done(program, awaited)
            self._record.note(f"{again} was delivered again")
            await program.terminate()

    async def check_book(self, count: int, why: str) -> None:
        """Ask for all payments of the book."""
        async with self.program("report") as program:
            line = await program.hear('{"payments": [["p-1", 10], ...]}')
        listed = line.get("payments")
        if not isinstance(listed, list):
            self._record.wrong_step(
                "the report", wanted='{"payments": [["p-1", 10], ...]}', found=line,
                why="with LAB_ASK=report the program prints its book and ends",
            )  # fmt: skip
        found = Counter(each[0] for each in listed if isinstance(each, list) and each)
        # Checked one by one first, so that an error names a payment instead of two long lists.
        for payment in (f"p-{number}" for number in range(1, count + 1)):
            if found[payment] != 1:
                self._record.wrong_step(
                    f"the book has {payment}", wanted="once",
                    found=f"{counted(found[payment], 'time')}", why=why,
                )  # fmt: skip
        wanted = sorted(["p-" + str(number), AMOUNT] for number in range(1, count + 1))
        self._record.expect(
            f"the book has p-1 to p-{count} once each", wanted=wanted, found=sorted(listed), why=why
        )
