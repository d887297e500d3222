"""Runs `mqadmin` on both sides at once, and compares what it left."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from parity.brokers import Side
from parity.mqadmin.fields import STATUS, Difference, differences, fields_of
from parity.mqadmin.ledger import Ledger
from parity.mqadmin.runs import FILES, Run
from parity.mqadmin.tool import Ran, Tool
from pocketmq.runtime.clock import SystemClock

PAUSES_S = (0.3, 1.0, 3.0)
"""Before a run that changes nothing is asked once more: queues fill and clients report later."""


@dataclass
class Stage:
    """One side: its `mqadmin`, its broker, and what runs of it have noted."""

    tool: Tool
    side: Side
    folder: Path
    noted: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The files that runs read are put in their place."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            (self.folder / name).write_text(text)
        self.noted |= {"b": self.side.broker, "f": str(self.folder)}

    async def run(self, run: Run) -> Ran:
        """Run it here; files that it wrote are added to what it printed."""
        words = shlex.split(re.sub(r"\{(\w+)\}", lambda found: self.noted[found[1]], run.line))
        for name in run.exports:
            (self.folder / name).unlink(missing_ok=True)
        name_server = () if run.bare else ("-n", self.side.nameserver)
        ran = await self.tool.run([*words, *name_server], run.most_s)
        for name, pattern in run.notes:
            if found := re.search(pattern, ran.printed):
                self.noted[name] = found[1]
        return Ran(ran.status, ran.printed + self._written(run, ran.printed))

    def _written(self, run: Run, printed: str) -> str:
        """The files that it was told to write; bodies of messages are taken away."""
        for body in re.findall(r"Message Body Path:\s+(/tmp/rocketmq/msgbodys/\w+)", printed):
            Path(body).unlink(missing_ok=True)  # the tool has one folder, wherever it runs
        written = [self.folder / name for name in run.exports if (self.folder / name).exists()]
        return "".join(f"\n{each.read_text()}" for each in written)

    def fields(self, ran: Ran, command: str) -> dict[str, list[str]]:
        """What of a run is compared."""
        own = {str(self.side.store): "store"}
        own |= {self.noted[name]: name for name in ("f", "client") if name in self.noted}
        return {STATUS: [ran.status], **fields_of(ran.printed, own, command)}


async def play(
    runs: Iterable[Run], ours: Stage, theirs: Stage, ledger: Ledger, outputs: Path
) -> list[Difference]:
    """Run all in their order on both: what the ledger does not explain.

    Args:
        runs: of `runs.py`.
        ours, theirs: where they run.
        ledger: what it explains is noted there as met.
        outputs: a file that gets what each printed.
    """
    clock, found = SystemClock(), []
    for run in runs:
        for pause_s in (*(() if run.writes else PAUSES_S), None):
            began = clock.monotonic()
            left, right = await asyncio.gather(ours.run(run), theirs.run(run))
            took_s = clock.monotonic() - began
            told = ours.fields(left, run.command), theirs.fields(right, run.command)
            differ = differences(run.command, run.line, *told)
            new = [each for each in differ if not ledger.explains(each)]
            if not new or pause_s is None:
                break
            await clock.sleep(pause_s)
        found += new
        with outputs.open("a") as out:
            out.write(f"===== {run.line}: {took_s:.1f} s\n--- ours {left.status}\n{left.printed}\n")
            out.write(f"--- theirs {right.status}\n{right.printed}\n")
            out.writelines(f"!!! {each}\n" for each in differ)
    return found
