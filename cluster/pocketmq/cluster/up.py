"""`pocketmq up`: runs a cluster in the foreground."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pocketmq.client.config import CA_FILE_VARIABLE, TLS_VARIABLE
from pocketmq.cluster.background import leave_terminal, until_gone
from pocketmq.cluster.control_address.client import (
    FILE,
    TOKEN_VARIABLE,
    VARIABLE,
    ControlFile,
)
from pocketmq.cluster.control_address.operations import SEEDING, Operations
from pocketmq.cluster.control_address.seeds import read_seed
from pocketmq.cluster.control_address.server import ControlServer, loopback_beside
from pocketmq.cluster.default_proxy import not_started
from pocketmq.cluster.errors import ProcessStartError
from pocketmq.cluster.folder import USER_FILE, data_folder
from pocketmq.cluster.http_server.guard import LOCAL_NAMES
from pocketmq.cluster.process import ChildProcess
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.cluster.steering.access import ClusterAccess
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.processes import RoleProcesses
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.operation.membership.options import MEMBER_VARIABLE
from pocketmq.runtime.addresses import in_brackets
from pocketmq.runtime.errors import DiskError, EnvironmentFault, PocketMQError
from pocketmq.runtime.files.private_file import write_private
from pocketmq.runtime.files.replaced_together import finish_together
from pocketmq.runtime.ports import free_ports
from pocketmq.runtime.process import RoleContext, RoleOptions, run_role


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSettings:
    """Settings of one `pocketmq up`, besides the cluster's options."""

    config_path: Path | None = None
    """TOML file with options, which roles read too."""
    seed: Path | None = None
    """TOML or JSON file with topics and messages; the cluster is ready once they are created."""
    ports_file: Path | None = None
    """JSON file to which the addresses are written when the cluster is ready."""
    exit_with_parent: bool = False
    background: bool = False
    """Leave the terminal once the cluster is ready; `in_background` runs it so."""
    caller_pid: int = 0
    """In the background: stop when this process has ended; 0: run until told to stop."""
    no_proxy: str = ""
    """Why there is no proxy, if nobody has turned it off: a line to print."""
    may_lack_proxy: bool = False
    """Nobody has asked for the proxy: if it does not start, a line says why, and the rest runs."""


def run_up(options: ClusterOptions, settings: UpSettings) -> int:
    """Run a cluster until SIGINT or SIGTERM; returns the exit status.

    After a signal before the cluster is ready it is that of a shell: 130 for Ctrl-C. A process that
    ends by itself is reported in a line, and the others go on. When none is left, the status is 1.
    """

    all_gone = False
    interrupted = 0
    no_proxy = [settings.no_proxy] if settings.no_proxy else []
    # Before anything starts, so that a seed that cannot be read fails at once.
    seed = None if settings.seed is None else read_seed(settings.seed)

    async def main(role: RoleContext) -> None:
        nonlocal interrupted

        # It prints no ready line, so a signal cancels this task, and leaving the block stops all.
        def ended(process: ChildProcess) -> None:
            nonlocal all_gone
            if process.name in control.killed:
                return  # it was asked to end
            _say(f"{process.name} ended with status {process.status}; its log: {process.log_path}")
            # Roles may be restarted, so the cluster goes on until none is left.
            if not cluster.alive:
                all_gone = True
                role.request_stop("no process is left")

        def missed(reason: PocketMQError) -> None:
            no_proxy.append(not_started(reason))

        if settings.ports_file is not None:
            _remove_ports(settings.ports_file)  # of an earlier run: nobody may trust it
        if settings.caller_pid:
            # A task of the role, so that its failure stops the cluster and is noticed.
            role.tasks.start(_stop_after(role, settings.caller_pid), name="watch the caller")
        with data_folder(options.data) as folder:
            # A snapshot's load that was killed may have left old and new data side by side.
            for line in finish_together(folder.path):
                _say(line)
            spec = cluster_spec(
                options,
                folder.path,
                config_path=settings.config_path,
                controller_ports=_controller_ports(options),
            )
            access = None
            if options.users is not None:
                access = ClusterAccess.read(options.users).kept_in(folder.path)
            steering = None if access is None else access.steering
            cluster = Supervisor(
                spec,
                on_ended=ended,
                env=None if access is None else access.environment,
                credentials=steering,
                on_no_proxy=missed if settings.may_lack_proxy else None,
            )
            control = ClusterControl(
                RoleProcesses(cluster, steering),
                options.clock,
                access=access,
                events_from_start=options.events,
                on_stop=lambda: role.request_stop("asked at the control address"),
            )
            try:
                with _readable_port_error():
                    await control.start()
            except asyncio.CancelledError:
                # If a caller or the last process has ended, the reason is no signal.
                number = signal.Signals.__members__.get(role.stop_reason or "SIGINT")
                interrupted = 1 if number is None else 128 + number
                raise
            try:
                seeding = ExitStack()
                if seed is not None:  # from the first answer of the control address on
                    # Otherwise `/readyz` would report ready before the seed's topics exist.
                    seeding.enter_context(control.before_ready(SEEDING))
                async with control_address(control, options) as address:
                    if seed is not None:
                        # As `pocketmq seed` does it, but before the READY lines.
                        await Operations(control).seed({}, seed)
                        seeding.close()
                    # Last, since whoever waits for this file takes the cluster for ready.
                    if settings.ports_file is not None:
                        _write_ports(settings.ports_file, cluster, address)
                    _introduce(cluster, options, address)
                    for line in no_proxy:
                        _say(line)
                    if settings.background:
                        _say("pocketmq down stops the cluster")
                        # The command that waits in the foreground ends with this.
                        leave_terminal(spec.logs / "up.log")
                    else:
                        _say("Ctrl-C stops the cluster")
                    await role.stopped()
            finally:
                if settings.ports_file is not None:
                    # Before the roles stop: its readers would connect to nothing.
                    settings.ports_file.unlink(missing_ok=True)
                await control.stop()

    quiet = RoleOptions(log_level="error", exit_with_parent=settings.exit_with_parent)
    status = run_role(main, role="pocketmq", name="up", options=quiet)
    return status or interrupted or int(all_gone)


async def _stop_after(role: RoleContext, pid: int) -> None:
    await until_gone(pid)
    role.request_stop(f"process {pid}, which started it, has ended")


@asynccontextmanager
async def control_address(
    control: ClusterControl, options: ClusterOptions
) -> AsyncIterator[ControlFile | None]:
    """Serve the cluster's control address during a block; yields None when it is turned off.

    It is written to `control.json` in the data folder, where commands find it.
    """
    if options.control_port < 0:
        yield None
        return
    host = options.control_host or loopback_beside(options.host)
    is_local = in_brackets(host) in LOCAL_NAMES
    # A given token stays the same over restarts; otherwise each start makes a new one.
    token = None if is_local else os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(24)
    server = ControlServer(control, host=host, port=options.control_port, token=token)
    # The file contains the token, so only its owner may read it.
    noted = ControlFile(server.url, control.nameservers, os.getpid(), token)
    path = control.roles.data / FILE
    async with server:
        _write_control_file(path, msgspec.json.encode(noted))
        try:
            yield noted
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def _readable_port_error() -> Iterator[None]:
    try:
        yield
    except ProcessStartError as exc:
        # Other start errors already say everything.
        if "is taken by" not in exc.last_words:
            raise
        what = str(exc).partition(";")[0]
        raise EnvironmentFault(
            f"{what}; stop this process, or let the system choose ports with --any-port"
        ) from exc


def _controller_ports(options: ClusterOptions) -> list[int]:
    """Free ports, where the system chooses them all."""
    return free_ports(options.host, options.controllers) if options.any_port else []


def _write_control_file(path: Path, content: bytes) -> None:
    """Only its owner can read it, because it may contain the token."""
    try:
        write_private(path, content)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise DiskError(path, reason, advice="choose another folder with --data") from exc


def _remove_ports(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise DiskError(path, reason, advice="choose another --ports-file") from exc


def _write_ports(path: Path, cluster: Supervisor, address: ControlFile | None) -> None:
    """Write the file atomically: another process may read it as soon as it exists."""
    ports = {process.name: process.address for process in cluster.processes}
    content = {
        "nameservers": cluster.namesrv_addr,
        "control": None if address is None else address.url,
        "endpoints": cluster.endpoints or None,
        "roles": ports,
    }
    # Named by this process's id, so that two starts do not write the same file.
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(msgspec.json.encode(content))
        beside.replace(path)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise DiskError(path, reason, advice="choose another --ports-file") from exc


def _introduce(cluster: Supervisor, options: ClusterOptions, address: ControlFile | None) -> None:
    _say(f"NAMESRV_ADDR={cluster.namesrv_addr}")
    if address is not None:
        _say(f"{VARIABLE}={address.url}")
        if address.token is not None:
            _say(f"{TOKEN_VARIABLE}={address.token}")
    if cluster.controller_addr:
        _say(f"CONTROLLER_ADDR={cluster.controller_addr}")
    if cluster.endpoints:
        _say(f"POCKETMQ_PROXY={cluster.endpoints}")
    if cluster.spec.tls is not None:
        _say(f"{TLS_VARIABLE}=true")
        _say(f"{CA_FILE_VARIABLE}={cluster.spec.tls.certificate}")
    if cluster.spec.member_secret is not None:
        _say(f"{MEMBER_VARIABLE}={cluster.spec.member_secret}")
    if options.users is not None:
        _say(f"users and rules: {options.users}; super user: {cluster.spec.data / USER_FILE}")
    for process in cluster.processes:
        # For the proxy, the port that SDKs use, not the one for tools.
        listens = cluster.endpoints if process.role == "proxy" else process.address
        _say(f"{process.name:14} {listens:21} pid {process.pid}")
    if not options.brokers:
        _say(
            "no broker: nothing can be sent; write --brokers 1, or start one with `pocketmq broker "
            f"--nameservers '{cluster.namesrv_addr}' --data DIR`"
        )
    kept = "" if options.data is not None else " (removed at the end; keep them with --data DIR)"
    _say(f"stores and logs: {cluster.spec.data}{kept}")
    if options.clock == "manual":
        _say(f"manual clock; pocketmq clock advance 126 -n '{cluster.namesrv_addr}' moves it")


def _say(line: str) -> None:
    """Print a line; if the reader has closed the pipe (`| head -1`), the cluster goes on."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
