"""`python -m pocketmq.nameserver`: one nameserver as a process."""

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

from pocketmq.nameserver.config import NameServerConfig
from pocketmq.runtime.configuration.config import options_file
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.files.replaced_together import take_own
from pocketmq.runtime.ports import check_port_free, told_ip
from pocketmq.runtime.process import RoleContext, RoleMain
from pocketmq.runtime.profile import profile_named

if TYPE_CHECKING:
    from pocketmq.nameserver.server import NameServer

log = structlog.get_logger()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit status."""
    return run_command("nameserver", [NameServerConfig], _prepare, arguments)


def _prepare(command: RoleCommand) -> tuple[str, RoleMain]:
    config = command.config(NameServerConfig)
    # `pocketmq nameserver` starts both roles in one process; this module starts a nameserver only
    # (D-55).
    if config.enable_controller_in_namesrv:
        advice = "start it with `pocketmq nameserver`, which starts both in one process"
        raise ConfigError("enable_controller_in_namesrv", "no controller is in here", advice=advice)

    async def serve(role: RoleContext) -> None:
        async with serving(role, command, config) as server:
            role.ready(port=server.port, host=told_ip(config.host))
            await role.stopped()

    return config.name, serve


@asynccontextmanager
async def serving(
    role: RoleContext, command: RoleCommand, config: NameServerConfig
) -> AsyncIterator[NameServer]:
    """A nameserver that answers; it is stopped at the end."""
    from pocketmq.nameserver.server import NameServer

    # Checked before anything is read: a taken port is the most common mistake.
    check_port_free(config.host, config.port)
    if restored := take_own(config.kv_config_path.expanduser().parent):
        log.warning("data.restored", what=restored)
    file = options_file(config.config_store_path, command.broker_conf)
    seams = seams_of(config.name, role, command)
    server = NameServer(
        replace(config, config_store_path=file),
        role.clock,
        seams.network,
        profile_named(command.options.profile),
        budget=command.budget,
        events=seams.events,
        members=seams.members,
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


if __name__ == "__main__":
    sys.exit(main())
