"""`python -m pocketmq.controller`: one controller as a process."""

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

from pocketmq.controller.config import ControllerConfig
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.transport.network import split_address
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.ports import check_port_free, told_ip
from pocketmq.runtime.profile import profile_named


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit status."""
    parser = RoleParser(prog="python -m pocketmq.controller", description="A PocketMQ controller.")
    try:
        options_loaded, config_loaded, budget_loaded = load_all(
            parser, [RoleOptions, ControllerConfig, Budget], arguments
        )
    except ConfigError as exc:
        return report(exc, "controller")
    options: RoleOptions = options_loaded.config
    config: ControllerConfig = config_loaded.config
    file = parser.parse_args(arguments).broker_conf
    if file is not None and config.config_store_path is None:  # what it was started with (O-8)
        config = replace(config, config_store_path=Path(file))

    async def serve(role: RoleContext) -> None:
        from pocketmq.controller.server import Controller, ControllerSeams
        from pocketmq.protocol.control import event_log
        from pocketmq.protocol.faults.rule_book import RuleBook
        from pocketmq.protocol.transport.faulty import FaultyTcp

        def failed(task: str, error: BaseException) -> None:
            role.request_stop(f"{task} failed: {error!r}")

        host, port = split_address(config.address)
        check_port_free(host, port)
        profile = profile_named(options.profile)
        events = event_log(config.name, role.clock, always=options.events)
        network = FaultyTcp(RuleBook(config.name, role.clock.time_ms, events))
        controller = Controller(
            config,
            ControllerSeams(role.clock, network),
            profile,
            budget=budget_loaded.config,
            on_failure=failed,
            events=events,
        )
        await controller.start()
        role.ready(port=controller.port, host=told_ip(host))
        try:
            await role.stopped()
        finally:
            await controller.stop()

    return run_role(serve, role="controller", name=config.name, options=options)


if __name__ == "__main__":
    sys.exit(main())
