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
from collections.abc import Sequence  # isort: skip
from dataclasses import replace  # isort: skip
from pathlib import Path  # isort: skip

from pocketmq.nameserver.config import NameServerConfig
from pocketmq.protocol.budget import Budget
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.ports import check_port_free, told_ip
from pocketmq.runtime.profile import profile_named


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
    file = parser.parse_args(arguments).broker_conf
    if file is not None and config.config_store_path is None:  # what it was started with (O-8)
        config = replace(config, config_store_path=Path(file))

    async def serve(role: RoleContext) -> None:
        from pocketmq.nameserver.server import NameServer
        from pocketmq.protocol.control import event_log
        from pocketmq.protocol.faults.rule_book import RuleBook
        from pocketmq.protocol.transport.faulty import FaultyTcp

        check_port_free(config.host, config.port)
        profile = profile_named(options.profile)
        events = event_log(config.name, role.clock, always=options.events)
        network = FaultyTcp(RuleBook(config.name, role.clock.time_ms, events))
        server = NameServer(
            config, role.clock, network, profile, budget=budget_loaded.config, events=events
        )
        await server.start()
        role.ready(port=server.port, host=told_ip(config.host))
        try:
            await role.stopped()
        finally:
            await server.stop()

    return run_role(serve, role="nameserver", name=config.name, options=options)


if __name__ == "__main__":
    sys.exit(main())
