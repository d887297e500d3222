"""A whole cluster in the foreground: what `pocketmq up` does."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pocketmq.cluster.errors import ProcessStartError
from pocketmq.cluster.folder import data_folder
from pocketmq.cluster.process import ChildProcess
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.runtime.errors import EnvironmentFault
from pocketmq.runtime.process import RoleContext, RoleOptions, run_role


def run_up(options: ClusterOptions, *, config_path: Path | None = None) -> int:
    """Run a cluster until SIGINT or SIGTERM; the exit status.

    A signal before the cluster is up gives what a shell shows for it: 130 for Ctrl-C.
    A process that ends by itself is told in a line, and the rest goes on: that is what a cluster
    is for. Only when none is left does the whole end, with status 1.
    """

    all_gone = False
    interrupted = 0

    async def main(role: RoleContext) -> None:
        nonlocal interrupted

        # It never calls itself ready, so a signal cancels it, and leaving the block stops all.
        def ended(process: ChildProcess) -> None:
            nonlocal all_gone
            _say(f"{process.name} ended with status {process.status}; its log: {process.log_path}")
            if not cluster.alive:
                all_gone = True
                role.request_stop("no process is left")

        with data_folder(options.data) as folder:
            spec = cluster_spec(options, folder.path, config_path=config_path)
            cluster = Supervisor(spec, on_ended=ended)
            try:
                with _readable_port_error():
                    await cluster.start()
            except asyncio.CancelledError:
                interrupted = 128 + signal.Signals[role.stop_reason or "SIGINT"]
                raise
            try:
                _introduce(cluster, options)
                await role.stopped()
            finally:
                await cluster.stop()

    quiet = RoleOptions(log_level="error")
    status = run_role(main, role="pocketmq", name="up", options=quiet)
    return status or interrupted or int(all_gone)


@contextmanager
def _readable_port_error() -> Iterator[None]:
    try:
        yield
    except ProcessStartError as exc:
        if "is taken by" not in exc.last_words:
            raise
        what = str(exc).partition(";")[0]
        raise EnvironmentFault(
            f"{what}; stop it, or let the system choose ports with --any-port"
        ) from exc


def _introduce(cluster: Supervisor, options: ClusterOptions) -> None:
    _say(f"NAMESRV_ADDR={cluster.namesrv_addr}")
    for process in cluster.processes:
        _say(f"{process.name:14} {process.address:21} pid {process.pid}")
    kept = "" if options.data is not None else " (removed at the end; keep them with --data DIR)"
    _say(f"stores and logs: {cluster.spec.data}{kept}")
    if options.clock == "manual":
        _say(f"time stands still; pocketmq clock advance 126 -n '{cluster.namesrv_addr}' moves it")
    _say("Ctrl-C stops the cluster")


def _say(line: str) -> None:
    """Print a line; whoever read us may have enough (`| head -1`), and the cluster goes on."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
