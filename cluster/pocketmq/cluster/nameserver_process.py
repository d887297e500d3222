"""`pocketmq nameserver`: a nameserver, and with `enableControllerInNamesrv` a controller beside it.

Roles do not import each other, so the process that has two of them is assembled here. They share
the process and its clock, and nothing else: each listens on its own port (D-55). The controller's
options come from the environment (`POCKETMQ_CONTROLLER_...`), the table `[controller]` of the TOML
file, and the properties file; flags are the nameserver's, because both have a `--port`.
"""

from __future__ import annotations

from pocketmq.runtime.interrupts import end_quietly

if __name__ == "__main__":
    end_quietly()  # until run_role handles signals itself

from pocketmq.operation.role_process import RoleCommand, run_command

import argparse  # isort: skip
import sys  # isort: skip
from collections.abc import Sequence  # isort: skip
from typing import NoReturn  # isort: skip

from pocketmq.nameserver import __main__ as nameserver
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.operation.membership.options import SecurityOptions
from pocketmq.protocol.budget import Budget
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.ports import told_ip
from pocketmq.runtime.process import RoleContext, RoleMain, RoleOptions, load_all


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit status."""
    from pocketmq.controller.config import ControllerConfig

    return run_command(
        "nameserver",
        [NameServerConfig],
        _prepare,
        arguments,
        program="pocketmq nameserver",
        others=[ControllerConfig],
    )


def _prepare(command: RoleCommand) -> tuple[str, RoleMain]:
    from pocketmq.controller import __main__ as controller
    from pocketmq.controller.config import ControllerConfig

    config, beside = command.config(NameServerConfig), command.without_flags(ControllerConfig)

    async def serve(role: RoleContext) -> None:
        async with (
            controller.serving(role, command, beside) as leader,
            nameserver.serving(role, command, config) as server,
        ):
            role.ready(port=server.port, host=told_ip(config.host), controller=leader.address)
            await role.stopped()

    return config.name, serve


def wanted(arguments: Sequence[str]) -> bool:
    """Whether flags, environment or files ask for a controller beside the nameserver.

    What is wrong with them is for the process to say that reads them next.
    """
    parser = _QuietParser(add_help=False)
    try:
        # Loaded as the process itself does, so that flags, environment and files count alike.
        _, config_loaded, *_ = load_all(
            parser, [RoleOptions, NameServerConfig, Budget, SecurityOptions], arguments, others=None
        )
    except ConfigError:
        return False
    config: NameServerConfig = config_loaded.config
    return config.enable_controller_in_namesrv


class _QuietParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # argparse would print its usage and exit; the nameserver itself reports the error.
        raise ConfigError("arguments", message)


if __name__ == "__main__":
    sys.exit(main())
