"""Lab 7: a transaction listener whose process dies at the worst moments."""

from __future__ import annotations

import json
from typing import Final

from pocketmq.cluster.labs.program import Line, Program
from pocketmq.cluster.labs.trial import Trial
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.clients import GetProducerConnectionListRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.transport.tcp import TcpNetwork

CHECK_S: Final = 40
"""Enough for a check: a half message is asked for when it is older than 6 s, every 30 s."""

OP_S: Final = 4
"""Enough for the broker to note the outcome: every 3 s."""

MATCH_WHY: Final = (
    "a message of a transaction is delivered exactly when the local transaction was committed; "
    "both must be true after every kill"
)
BOOK_WHY: Final = (
    "the broker may ask any process of the group, also one started later: the answer has to come "
    "from what survives a kill (P-62)"
)
RUNNING_WHY: Final = (
    "the local transaction has not ended: neither commit nor rollback is true yet. UNKNOWN has "
    "the broker ask again later (B-101, B-106)"
)


async def judge(trial: Trial) -> None:
    """See the lab's page."""
    record = trial.record
    orders = _Orders(trial, await trial.topic("orders"), trial.name("shop"))

    record.stage()
    async with orders.program() as program:
        await orders.place(program, "o-1", 30)
        await orders.finish(program, "o-1", "commit")
        await orders.place(program, "o-2", 500)
        await orders.finish(program, "o-2", "rollback")
        await orders.compare(["o-1"], MATCH_WHY)

        record.stage()
        await orders.place(program, "o-3", 30)
        # After SIGKILL only what the program has written to its files is left.
        await program.kill()
        record.note("o-3: its half message is stored; SIGKILL before the local transaction")
    async with orders.program() as program:
        await orders.checked(program, "o-3", "rollback", BOOK_WHY)
        await orders.compare(["o-1"], MATCH_WHY)

        record.stage()
        await orders.place(program, "o-4", 30)
        await orders.step(program, "after", "o-4")
        await program.kill()
        record.note(
            "o-4: the local transaction is committed; SIGKILL before the broker hears of it"
        )
    async with orders.program() as program:
        await orders.checked(program, "o-4", "commit", BOOK_WHY)
        await orders.compare(["o-1", "o-4"], MATCH_WHY)

        record.stage()
        await orders.place(program, "o-5", 30)
        record.note("o-5: the local transaction is running, and slow")
        await orders.checked(program, "o-5", "unknown", RUNNING_WHY)
        await orders.finish(program, "o-5", "commit")
        await orders.compare(["o-1", "o-4", "o-5"], MATCH_WHY)


class _Orders:
    def __init__(self, trial: Trial, topic: str, group: str) -> None:
        self._court = trial
        self._record = trial.record
        self._topic = topic
        self._env = {"LAB_TOPIC": topic, "LAB_GROUP": group}

    def program(self, ask: str = "produce") -> Program:
        return self._court.program(LAB_ASK=ask, **self._env)

    async def place(self, program: Program, order: str, price: int) -> None:
        """Have an order sent, up to the beginning of its local transaction."""
        await program.tell({"order": order, "price": price})
        self._expect_line(await program.hear(f"before {order}"), {"before": order})
        self._record.note(f"{order}, price {price}: its half message is stored")

    async def step(self, program: Program, step: str, order: str) -> None:
        """Let it go on, up to the next line."""
        await program.tell({"go": True})
        self._expect_line(await program.hear(f"{step} {order}"), {step: order})

    async def finish(self, program: Program, order: str, outcome: str) -> None:
        """Let the local transaction end, and its outcome reach the broker."""
        await self.step(program, "after", order)
        await program.tell({"go": True})
        line = await program.hear(f"sent {order}")
        self._record.expect(
            f"{order}: the outcome of the local transaction",
            wanted={"sent": order, "outcome": outcome}, found=line,
            why="a price of 100 or more is refused: a rollback; all else is committed",
        )  # fmt: skip

    async def checked(self, program: Program, order: str, wanted: str, why: str) -> None:
        """Let time pass until the broker asks, and hear the answer."""
        # A program that has just started may not have sent its heartbeat yet.
        await self._court.until(
            self._is_known,
            "a producer of the group at the broker",
            "the broker can only ask a producer that has sent it a heartbeat: ask for the route of "
            "the topic when the program starts",
        )
        # Noted before the move, as the answer may come at any moment during it.
        self._record.note(f"{CHECK_S} s pass: the broker asks what became of {order}")
        await self._court.cluster.advance(CHECK_S)
        line = await program.hear(f"checked {order}")
        self._record.expect(
            f"the broker asks for {order}",
            wanted={"checked": order, "outcome": wanted}, found=line, why=why,
        )  # fmt: skip

    async def _is_known(self) -> bool:
        header = GetProducerConnectionListRequestHeader(producer_group=self._env["LAB_GROUP"])
        remoting = RemotingClient(TcpNetwork())
        try:
            address = self._court.cluster.roles.addresses["broker-a"]
            return (await remoting.call(address, header)).code == ResponseCode.SUCCESS
        finally:
            await remoting.close()

    async def compare(self, wanted: list[str], why: str) -> None:
        """What was delivered, and what is in the book, are the same orders."""

        async def all_there() -> bool:
            # The broker notes outcomes every 3 s of its time.
            await self._court.cluster.advance(OP_S)
            return await self._court.stored(self._topic) >= len(wanted)

        await self._court.until(all_there, f"{', '.join(wanted)} in the topic", why)
        found = [json.loads(m.body)["order"] for m in await self._court.messages(self._topic)]
        self._record.expect("orders in the topic", wanted=wanted, found=found, why=why)
        # In a new run, so that the report must come from the book and not from memory.
        async with self.program("report") as program:
            line = await program.hear('{"orders": ["o-1", ...]}')
        self._record.expect("orders in the book", wanted={"orders": wanted}, found=line, why=why)

    def _expect_line(self, line: Line, wanted: Line) -> None:
        if line != wanted:
            self._record.wrong_step(
                "the program says where it is", wanted=wanted, found=line,
                why="the judge decides by these lines when to kill it",
            )  # fmt: skip
