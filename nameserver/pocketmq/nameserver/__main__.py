"""`python -m pocketmq.nameserver`: one nameserver as a process."""

from __future__ import annotations

from pocketmq.runtime.interrupts import end_quietly

if __name__ == "__main__":
    end_quietly()  # until run_role handles signals itself

from pocketmq.runtime.process import (
    RoleContext,
    RoleOptions,
    RoleParser,
    load_all,
    report,
    run_role,
)

import sys  # isort: skip
from collections.abc import AsyncIterator, Sequence  # isort: skip
from contextlib import asynccontextmanager  # isort: skip
from dataclasses import replace  # isort: skip

from typing import TYPE_CHECKING  # isort: skip

from pocketmq.nameserver.config import NameServerConfig
from pocketmq.protocol.budget import Budget
from pocketmq.runtime.config import options_file
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.ports import check_port_free, told_ip
from pocketmq.runtime.profile import profile_named

if TYPE_CHECKING:
    from pocketmq.nameserver.server import NameServer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit status."""
    parser = RoleParser(prog="python -m pocketmq.nameserver", description="A PocketMQ nameserver.")
    try:
        options_loaded, config_loaded, budget_loaded = load_all(
            parser, [RoleOptions, NameServerConfig, Budget], arguments
        )
    except ConfigError as exc:
        return report(exc, "nameserver")
    options: RoleOptions = options_loaded.config
    config: NameServerConfig = config_loaded.config
    if config.enable_controller_in_namesrv:
        advice = "start it with `pocketmq nameserver`, which starts both in one process"
        wrong = ConfigError(
            "enable_controller_in_namesrv", "no controller is in here", advice=advice
        )
        return report(wrong, "nameserver")
    started_with = parser.parse_args(arguments).broker_conf
    config = replace(config, config_store_path=options_file(config.config_store_path, started_with))

    async def serve(role: RoleContext) -> None:
        async with serving(role, options, config, budget_loaded.config) as server:
            role.ready(port=server.port, host=told_ip(config.host))
            await role.stopped()

    return run_role(serve, role="nameserver", name=config.name, options=options)


@asynccontextmanager
async def serving(
    role: RoleContext, options: RoleOptions, config: NameServerConfig, budget: Budget
) -> AsyncIterator[NameServer]:
    """A nameserver that answers; it is stopped at the end."""
    from pocketmq.nameserver.server import NameServer
    from pocketmq.protocol.control import event_log
    from pocketmq.protocol.faults.rule_book import RuleBook
    from pocketmq.protocol.transport.faulty import FaultyTcp

    check_port_free(config.host, config.port)
    profile = profile_named(options.profile)
    events = event_log(config.name, role.clock, always=options.events)
    network = FaultyTcp(RuleBook(config.name, role.clock.time_ms, events))
    server = NameServer(config, role.clock, network, profile, budget=budget, events=events)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


if __name__ == "__main__":
    sys.exit(main())
