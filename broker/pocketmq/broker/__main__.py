"""`python -m pocketmq.broker`: one broker as a process."""

from __future__ import annotations

from pocketmq.runtime.interrupts import end_quietly

if __name__ == "__main__":
    end_quietly()  # until run_role handles signals itself

from pocketmq.operation.role_process import RoleCommand, run_command, seams_of

import errno  # isort: skip
import os  # isort: skip
import sys  # isort: skip
from collections.abc import Sequence  # isort: skip
from dataclasses import replace  # isort: skip
from pathlib import Path  # isort: skip

import structlog  # isort: skip

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.store.config import StoreConfig
from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.errors import ConfigError, DiskError
from pocketmq.runtime.files.new_folders import make_lasting
from pocketmq.runtime.files.replaced_together import take_own
from pocketmq.runtime.ports import addresses_of, check_port_free, told_ip
from pocketmq.runtime.process import RoleContext, RoleMain
from pocketmq.runtime.profile import profile_named

log = structlog.get_logger()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit status."""
    return run_command("broker", [BrokerConfig, StoreConfig], _prepare, arguments)


def _prepare(command: RoleCommand) -> tuple[str, RoleMain]:
    asked = command.config(BrokerConfig)
    store_config = command.config(StoreConfig)
    if command.is_default(BrokerConfig, "data"):  # the directory has two names
        asked = replace(asked, data=Path(store_config.store_path_root_dir))
    file = command.broker_conf
    if file is not None and asked.broker_config_path is None:  # what it was started with (O-7)
        asked = replace(asked, broker_config_path=Path(file))

    async def serve(role: RoleContext) -> None:
        from pocketmq.broker.server import Broker
        from pocketmq.broker.store.disk.fault_disk import VARIABLE, disk_of
        from pocketmq.broker.store.disk.ruled_disk import RuledDisk

        _check(asked)
        config = replace(asked, broker_ip1=asked.broker_ip1 or told_ip(asked.host))
        ip = _ip_of(config.broker_ip1)
        seams = seams_of(config.name, role, command)
        # POCKETMQ_DISK_FAULT: the disk may be told to fail from the start
        disk = disk_of(os.environ) if os.environ.get(VARIABLE) else RuledDisk(seams.rules)
        broker = Broker(
            config,
            role.clock,
            seams.network,
            profile_named(command.options.profile),
            store_config=store_config,
            budget=command.budget,
            disk=disk,
            events=seams.events,
            ip=ip,
            members=seams.members,
        )
        await broker.start()
        role.ready(port=broker.port, host=config.broker_ip1)
        try:
            await role.stopped()
        finally:
            await broker.stop()

    return asked.name, serve


def _ip_of(host: str) -> str:
    try:
        return addresses_of(host)[0]
    except OSError as exc:
        raise ConfigError(
            "broker_ip1",
            f"{host!r} has no address",
            advice="write a host name or an address that this machine can resolve",
        ) from exc


def _check(config: BrokerConfig) -> None:
    """Refuse, in one line and before anything is logged, what could not work.

    Raises:
        PocketMQError: It names the option.
    """
    for address in config.nameservers:
        try:
            split_address(address)
        except ValueError as exc:
            raise ConfigError("nameservers", str(exc)) from exc
    # Check before the folder is touched: the broker that has the port may be using the folder.
    check_port_free(config.host, config.port)
    folder = config.data.expanduser()
    # Finish an interrupted load of a snapshot before anything in the folder is opened.
    if restored := take_own(folder):
        log.warning("data.restored", what=restored)
    try:
        make_lasting(folder)
        # Report this here, with the folder's name; the store would only fail later, at some file.
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise DiskError(folder, reason, advice="choose another folder with --data") from exc


if __name__ == "__main__":
    sys.exit(main())
