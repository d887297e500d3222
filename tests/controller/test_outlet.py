"""Messages of controllers leave by one way, with the proof that what they follow from is safe."""

from __future__ import annotations

import ast
from pathlib import Path

from pocketmq.controller.outlet import Outlet, Written
from pocketmq.controller.raft.group import Step
from pocketmq.controller.raft.messages import Envelope, VoteReply, VoteRequest, Write

CONTROLLER = Path(__file__).resolve().parents[2] / "controller" / "pocketmq" / "controller"
VOTE = Envelope("b", VoteReply(4, True, False))
ASK = Envelope("c", VoteRequest(5, 0, 0, True))


def step(number: int, *messages: Envelope) -> Step:
    write = Write(number, 4, "b", []) if number else None
    return Step(write=write, messages=list(messages))


def test_what_follows_from_a_write_stays_until_there_is_proof_of_it() -> None:
    sent: list[Envelope] = []
    outlet = Outlet(sent.append)
    outlet.put(step(0, ASK))
    outlet.put(step(1, VOTE))
    outlet.let_go(None)
    assert sent == [ASK]
    assert [write.number for write in outlet.to_write()] == [1]
    outlet.let_go(None)
    assert sent == [ASK]
    outlet.let_go(Written(1))
    assert sent == [ASK, VOTE]


def test_an_older_proof_is_none_for_a_later_write_and_for_what_comes_behind_it() -> None:
    sent: list[Envelope] = []
    outlet = Outlet(sent.append)
    outlet.put(step(1))
    outlet.put(step(2, VOTE))
    outlet.put(step(0, ASK))
    assert [write.number for write in outlet.to_write()] == [1, 2]
    assert outlet.to_write() == []
    outlet.let_go(Written(1))
    assert sent == []
    outlet.let_go(Written(2))
    assert sent == [VOTE, ASK]


def test_only_the_journal_makes_proofs_and_only_the_outlet_sends() -> None:
    made = {
        path.name
        for path in CONTROLLER.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Written")
    }
    assert made == {"journal_file.py"}
    assert "_send" not in (CONTROLLER / "consensus.py").read_text(encoding="utf-8")
