"""`python -m pocketmq.broker`: one broker as a process."""

from __future__ import annotations

from pocketmq.runtime.interrupts import end_quietly

if __name__ == "__main__":
    end_quietly()  # until run_role hears signals itself

from pocketmq.runtime.process import (
    RoleContext,
    RoleOptions,
    RoleParser,
    load_all,
    report,
    run_role,
)

import errno  # isort: skip
import os  # isort: skip
import sys  # isort: skip
from collections.abc import Sequence  # isort: skip
from dataclasses import replace  # isort: skip
from pathlib import Path  # isort: skip

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.store.config import StoreConfig
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.transport.network import split_address
from pocketmq.runtime.errors import ConfigError, DiskError
from pocketmq.runtime.ports import check_port_free, told_ip
from pocketmq.runtime.profile import profile_named


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit status."""
    parser = RoleParser(prog="python -m pocketmq.broker", description="A PocketMQ broker.")
    try:
        options_loaded, config_loaded, store_loaded, budget_loaded = load_all(
            parser, [RoleOptions, BrokerConfig, StoreConfig, Budget], arguments
        )
    except ConfigError as exc:
        return report(exc, "broker")
    options: RoleOptions = options_loaded.config
    asked: BrokerConfig = config_loaded.config
    store_config: StoreConfig = store_loaded.config
    if config_loaded.origins["data"] == "default":  # the directory has two names
        asked = replace(asked, data=Path(store_config.store_path_root_dir))

    file = parser.parse_args(arguments).broker_conf
    if file is not None and asked.broker_config_path is None:  # what it was started with (O-7)
        asked = replace(asked, broker_config_path=Path(file))

    async def serve(role: RoleContext) -> None:
        from pocketmq.broker.server import Broker
        from pocketmq.broker.store.fault_disk import VARIABLE, disk_of
        from pocketmq.broker.store.ruled_disk import RuledDisk
        from pocketmq.protocol.control import event_log
        from pocketmq.protocol.faults.rule_book import RuleBook
        from pocketmq.protocol.transport.faulty import FaultyTcp

        _check(asked)
        config = replace(asked, broker_ip1=asked.broker_ip1 or told_ip(asked.host))
        profile = profile_named(options.profile)
        events = event_log(config.name, role.clock, always=options.events)
        book = RuleBook(config.name, role.clock.time_ms, events)
        # POCKETMQ_DISK_FAULT: the disk may be told to fail from the start
        disk = disk_of(os.environ) if os.environ.get(VARIABLE) else RuledDisk(book)
        broker = Broker(
            config,
            role.clock,
            FaultyTcp(book),
            profile,
            store_config=store_config,
            budget=budget_loaded.config,
            disk=disk,
            events=events,
        )
        await broker.start()
        role.ready(port=broker.port, host=config.broker_ip1)
        try:
            await role.stopped()
        finally:
            await broker.stop()

    return run_role(serve, role="broker", name=asked.name, options=options)


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
    folder = config.data.expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise DiskError(folder, reason, advice="choose another folder with --data") from exc
    check_port_free(config.host, config.port)


if __name__ == "__main__":
    sys.exit(main())
