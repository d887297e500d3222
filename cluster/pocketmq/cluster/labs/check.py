"""One check: a cluster, a judge, a verdict."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pocketmq.cluster.labs.catalog import PROGRAM, Lab
from pocketmq.cluster.labs.program import last_words
from pocketmq.cluster.labs.trial import Trial
from pocketmq.cluster.labs.verdict import Record, WrongStepError
from pocketmq.cluster.labs.world import world_of
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import CallerError

DEFAULT_PATIENCE_S = 6.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a check."""

    record: Record
    took_s: float
    """Real seconds."""
    last_words: str
    """The end of the program's standard error, where its traceback is."""


def command_of(lab: Lab, words: Sequence[str]) -> tuple[list[str], Path]:
    """The command line of the program, and where it runs.

    Args:
        lab: For the default folder, `lab-N`.
        words: A folder with `lab.py`, a Python file, or a command line in one or several words.

    Raises:
        CallerError: There is no such folder or file.
    """
    given = list(words) or [f"lab-{lab.number}"]
    if len(given) == 1:
        path = Path(given[0])
        if path.is_dir():
            path = path / PROGRAM
        # Without words the default folder is meant, and an error says if it is missing.
        if path.suffix == ".py" or not words:
            if not path.is_file():
                raise CallerError(
                    f"{path} does not exist; `pocketmq lab start {lab.number}` makes a folder "
                    f"lab-{lab.number} with a program to begin with"
                )
            # Run by this Python, which has PocketMQ; a command line may name another one.
            return [sys.executable, str(path.resolve())], path.resolve().parent
        given = shlex.split(given[0])
        if not given:
            raise CallerError("the command line is empty; give a folder with lab.py, or a command")
    return given, Path.cwd()


async def check(
    lab: Lab,
    words: Sequence[str],
    *,
    seed: int = 17,
    patience_s: float = DEFAULT_PATIENCE_S,
    cluster: ClusterControl | None = None,
) -> Verdict:
    """Judge a program.

    Args:
        lab: The lab.
        words: See `command_of`.
        seed: Decides everything that is random.
        patience_s: Real seconds for one answer of the program.
        cluster: One to work on; by default a new one is started.

    Raises:
        CallerError, EnvironmentFault: The program cannot be started at all.
    """
    command, cwd = command_of(lab, words)
    clock = SystemClock()
    began_at = clock.monotonic()
    # Tests run several checks on one cluster, as starting it takes longest.
    if cluster is not None:
        return await _judged(lab, command, cwd, cluster, seed, patience_s, began_at)
    async with world_of(lab) as own:
        return await _judged(lab, command, cwd, own, seed, patience_s, began_at)


async def _judged(
    lab: Lab,
    command: Sequence[str],
    cwd: Path,
    cluster: ClusterControl,
    seed: int,
    patience_s: float,
    began_at: float,
) -> Verdict:
    record = Record(lab.stages, cluster.time_ms)
    with tempfile.TemporaryDirectory(prefix="pocketmq-lab-") as folder:
        trial = Trial(command, cwd, Path(folder), record, cluster, seed=seed, patience_s=patience_s)
        try:
            await lab.judged_by()(trial)
        # The program's own traceback often says more than the judge can.
        except WrongStepError:
            words = last_words(Path(folder))
        else:
            words = ""
    return Verdict(record, SystemClock().monotonic() - began_at, words)
