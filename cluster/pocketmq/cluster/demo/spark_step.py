"""The demo's last step: Spark reads the flights from the brokers and computes the same table.

Spark runs in its own process, with a JVM as child; both have ended when the step ends, even on an
error. Their standard error is in `logs/spark.log`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pocketmq.pipeline.jobs.carriers import CarrierDelay
from pocketmq.pipeline.spark.session import check_spark
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import MissingToolError

CARRIERS_JOB = (sys.executable, "-m", "pocketmq.pipeline.jobs.carriers")

LIMIT_S = 300.0
"""Real seconds at most; Spark takes about 30 s on two cores."""


@dataclass(frozen=True, slots=True)
class SparkStep:
    """Result of the step."""

    line: str
    """A line for the report: how long it took, why it was left out, or its error."""
    means: Mapping[str, Fraction | None] | None = None
    """Mean departure delay per carrier; None when Spark was left out or failed."""
    flights: int = 0
    failed: bool = False

    def complaints(self, stored: int, means: Mapping[str, Fraction | None]) -> list[str]:
        """Differences from the stored messages and the CSV's means."""
        if self.failed:
            return [self.line]
        found = []
        if self.means is not None and self.flights != stored:
            found.append(f"Spark has read {self.flights:,} of {stored:,} stored messages")
        if self.means is not None and dict(self.means) != dict(means):
            found.append("Spark's mean delays differ from the CSV's")
        return found


async def run_spark_step(
    nameservers: str,
    topic: str,
    log_path: Path,
    *,
    env: Mapping[str, str] | None = None,
    job: Sequence[str] = CARRIERS_JOB,
) -> SparkStep:
    """Compute the table with Spark, if it is installed.

    Args:
        nameservers: `host:port;host:port`.
        topic: The topic with the flights.
        log_path: File for Spark's standard error.
        env: Added to Spark's environment.
        job: Command that prints the carriers as `pocketmq.pipeline.jobs.carriers` does.
    """
    try:
        check_spark()
    except MissingToolError as exc:
        # The Spark step is on by default, so a machine without Spark is no error.
        return SparkStep(f"Spark is left out: {exc}")
    clock = SystemClock()
    began_at_s = clock.monotonic()
    with log_path.open("ab") as log:
        # A separate process: if it hangs, it is killed together with its JVM.
        process = await asyncio.create_subprocess_exec(
            *job,
            *("--nameservers", nameservers, "--topic", topic),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            # In a session of its own, so that its JVM is killed with it.
            start_new_session=True,
            env=os.environ | dict(env or {}),
        )
        try:
            async with clock.timeout(LIMIT_S):
                printed, _ = await process.communicate()
        except TimeoutError:
            return SparkStep(f"Spark did not end within {LIMIT_S:g} s; see {log_path}", failed=True)
        finally:
            # Also after success, as the JVM may outlive Python.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # Otherwise it would stay as a zombie.
            await process.wait()
    if process.returncode != 0:
        return SparkStep(f"Spark failed: {_last_line(log_path)}; see {log_path}", failed=True)
    rows = [CarrierDelay(**json.loads(line)) for line in printed.splitlines()]
    flights = sum(row.flights for row in rows)
    took_s = clock.monotonic() - began_at_s
    return SparkStep(
        f"Spark read {flights:,} flights from the brokers in {took_s:.1f} s, its start included",
        {row.carrier: row.mean for row in rows},
        flights,
    )


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
