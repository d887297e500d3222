"""A controller's journal: its effects in their order, and a last line that a crash tore."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.controller.journal_file import JournalFile
from pocketmq.controller.outlet import Written
from pocketmq.controller.raft.messages import Entry, Snapshot, Stored, Write
from pocketmq.protocol.codes import ResponseCode
from support.controller_rig import MemoryFiles, controllers

JOURNAL = "/n0/raft.journal"


class NotedFiles(MemoryFiles):
    """Notes what is done to which file."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def make_directory(self, path: str, *, lasting: bool = False) -> None:
        self.done.append(f"make {path} {lasting=}")

    async def write_text(self, path: str, text: str) -> None:
        self.done.append(f"write {path}")
        await super().write_text(path, text)

    async def append_text(self, path: str, text: str) -> None:
        self.done.append(f"append {path}")
        await super().append_text(path, text)

    async def rename(self, source: str, target: str) -> None:
        self.done.append(f"rename {target}")
        await super().rename(source, target)


async def test_a_journal_is_begun_in_a_lasting_folder_and_replaced_as_a_whole() -> None:
    files = NotedFiles()
    journal = JournalFile(Path("/n0"), "g", "n0", files)
    replaced = [f"write {JOURNAL}.tmp", f"rename {JOURNAL}"]
    assert await journal.load() == Stored()
    assert files.done == ["make /n0 lasting=True", *replaced]
    files.done.clear()
    assert await journal.write(Write(1, 1, "n0", [Entry(1, 1, "x")])) == Written(1)
    assert files.done == [f"append {JOURNAL}"]
    files.done.clear()
    snapshot = Snapshot(1, 1, "state")
    assert await journal.write(Write(2, 1, "n0", [Entry(2, 1, "y")], snapshot)) == Written(2)
    assert files.done == replaced
    files.done.clear()
    assert await journal.load() == Stored(1, "n0", snapshot, [Entry(2, 1, "y")])
    assert files.done == [], "what is whole is left as it is"


@pytest.mark.parametrize("left", [1, 9, 20, -1])
async def test_the_write_after_a_torn_line_can_be_read_again(left: int) -> None:
    files = MemoryFiles()
    journal = JournalFile(Path("/n0"), "g", "n0", files)
    await journal.load()
    await journal.write(Write(1, 1, "n0", [Entry(1, 1, "x")]))
    whole = files.texts[JOURNAL]
    await journal.write(Write(2, 1, "n0", [Entry(2, 1, "torn")]))
    torn = files.texts[JOURNAL][len(whole) :][:left]
    files.texts[JOURNAL] = whole + torn
    again = JournalFile(Path("/n0"), "g", "n0", files)
    assert await again.load() == Stored(1, "n0", entries=[Entry(1, 1, "x")])
    await again.write(Write(1, 2, "n0", [Entry(2, 2, "y")]))
    third = JournalFile(Path("/n0"), "g", "n0", files)
    assert await third.load() == Stored(2, "n0", entries=[Entry(1, 1, "x"), Entry(2, 2, "y")])


async def test_a_controller_starts_a_second_time_after_its_last_line_was_torn() -> None:
    async with controllers() as rig:
        broker = await rig.broker()
        await broker.elect()
        await rig.stop("n0")
        rig.files["n0"].texts[JOURNAL] += "5c7a90e1 {torn"
        for at in range(3):
            await rig.start("n0")
            await rig.until(lambda: rig.controllers["n0"].consensus.serves)
            info, _ = await rig.info()
            assert info.master_broker_id == broker.id
            assert (await broker.register(f"127.0.0.1:{at + 1}")).code == ResponseCode.SUCCESS
            await rig.stop("n0")
