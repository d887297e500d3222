"""`python -m pocketmq.controller`: one controller as a process."""

from __future__ import annotations

from pocketmq.runtime.interrupts import end_quietly

if __name__ == "__main__":
    end_quietly()  # until run_role handles signals itself

from pocketmq.operation.role_process import RoleCommand, run_command, seams_of

import sys  # isort: skip
from collections.abc import AsyncIterator, Sequence  # isort: skip
from contextlib import asynccontextmanager  # isort: skip
from dataclasses import replace  # isort: skip

from typing import TYPE_CHECKING  # isort: skip

import structlog  # isort: skip

from pocketmq.controller.config import ControllerConfig
from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.configuration.config import options_file
from pocketmq.runtime.files.replaced_together import take_own
from pocketmq.runtime.ports import check_port_free, told_ip
from pocketmq.runtime.process import RoleContext, RoleMain
from pocketmq.runtime.profile import profile_named

if TYPE_CHECKING:
    from pocketmq.controller.server import Controller

log = structlog.get_logger()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit status."""
    return run_command("controller", [ControllerConfig], _prepare, arguments)


def _prepare(command: RoleCommand) -> tuple[str, RoleMain]:
    config = command.config(ControllerConfig)

    async def serve(role: RoleContext) -> None:
        async with serving(role, command, config) as controller:
            host, _ = split_address(config.address)
            role.ready(port=controller.port, host=told_ip(host))
            await role.stopped()

    return config.name, serve


@asynccontextmanager
async def serving(
    role: RoleContext, command: RoleCommand, config: ControllerConfig
) -> AsyncIterator[Controller]:
    """A controller that takes part in its group; it leaves at the end."""
    from pocketmq.controller.server import Controller, ControllerSeams

    def failed(task: str, error: BaseException) -> None:
        role.request_stop(f"{task} failed: {error!r}")

    # Before the journal is touched: this controller may be running already, at this port.
    check_port_free(*split_address(config.address))
    if restored := take_own(config.store_path.expanduser()):
        log.warning("data.restored", what=restored)
    file = options_file(config.config_store_path, command.broker_conf)
    seams = seams_of(config.name, role, command)
    controller = Controller(
        replace(config, config_store_path=file),
        ControllerSeams(role.clock, seams.network, members=seams.members),
        profile_named(command.options.profile),
        budget=command.budget,
        on_failure=failed,
        events=seams.events,
    )
    await controller.start()
    try:
        yield controller
    finally:
        await controller.stop()


if __name__ == "__main__":
    sys.exit(main())
