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
from collections.abc import AsyncIterator, Sequence  # isort: skip
from contextlib import asynccontextmanager  # isort: skip
from dataclasses import replace  # isort: skip

from typing import TYPE_CHECKING  # isort: skip

from pocketmq.controller.config import ControllerConfig
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.transport.network import split_address
from pocketmq.runtime.config import options_file
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.ports import check_port_free, told_ip
from pocketmq.runtime.profile import profile_named

if TYPE_CHECKING:
    from pocketmq.controller.server import Controller


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
    started_with = parser.parse_args(arguments).broker_conf
    config = replace(config, config_store_path=options_file(config.config_store_path, started_with))

    async def serve(role: RoleContext) -> None:
        async with serving(role, options, config, budget_loaded.config) as controller:
            host, _ = split_address(config.address)
            role.ready(port=controller.port, host=told_ip(host))
            await role.stopped()

    return run_role(serve, role="controller", name=config.name, options=options)


@asynccontextmanager
async def serving(
    role: RoleContext, options: RoleOptions, config: ControllerConfig, budget: Budget
) -> AsyncIterator[Controller]:
    """A controller that takes part in its group; it leaves at the end."""
    from pocketmq.controller.server import Controller, ControllerSeams
    from pocketmq.protocol.control import event_log
    from pocketmq.protocol.faults.rule_book import RuleBook
    from pocketmq.protocol.transport.faulty import FaultyTcp

    def failed(task: str, error: BaseException) -> None:
        role.request_stop(f"{task} failed: {error!r}")

    check_port_free(*split_address(config.address))
    events = event_log(config.name, role.clock, always=options.events)
    controller = Controller(
        config,
        ControllerSeams(role.clock, FaultyTcp(RuleBook(config.name, role.clock.time_ms, events))),
        profile_named(options.profile),
        budget=budget,
        on_failure=failed,
        events=events,
    )
    await controller.start()
    try:
        yield controller
    finally:
        await controller.stop()


if __name__ == "__main__":
    sys.exit(main())
