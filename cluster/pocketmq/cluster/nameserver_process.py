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

from pocketmq.runtime.process import (
    RoleContext,
    RoleOptions,
    RoleParser,
    load_all,
    report,
    run_role,
)

import argparse  # isort: skip
import os  # isort: skip
import sys  # isort: skip
from collections.abc import Sequence  # isort: skip
from dataclasses import replace  # isort: skip
from pathlib import Path  # isort: skip
from typing import NoReturn  # isort: skip

from pocketmq.nameserver import __main__ as nameserver
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.protocol.budget import Budget
from pocketmq.runtime.config import load, options_file
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.ports import told_ip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit status."""
    from pocketmq.controller import __main__ as controller
    from pocketmq.controller.config import ControllerConfig

    parser = RoleParser(prog="pocketmq nameserver", description="A PocketMQ nameserver.")
    try:
        options_loaded, config_loaded, budget_loaded = load_all(
            parser, [RoleOptions, NameServerConfig, Budget], arguments, others=[ControllerConfig]
        )
        files = parser.parse_args(arguments)
        conf, toml = files.broker_conf, files.config
        controller_loaded = load(
            ControllerConfig,
            {},
            os.environ,
            Path(toml) if toml else None,
            broker_conf=Path(conf) if conf else None,
        )
    except ConfigError as exc:
        return report(exc, "nameserver")
    options: RoleOptions = options_loaded.config
    config, beside = config_loaded.config, controller_loaded.config
    config = replace(config, config_store_path=options_file(config.config_store_path, conf))
    beside = replace(beside, config_store_path=options_file(beside.config_store_path, conf))

    async def serve(role: RoleContext) -> None:
        async with (
            controller.serving(role, options, beside, budget_loaded.config) as leader,
            nameserver.serving(role, options, config, budget_loaded.config) as server,
        ):
            role.ready(port=server.port, host=told_ip(config.host), controller=leader.address)
            await role.stopped()

    return run_role(serve, role="nameserver", name=config.name, options=options)


def wanted(arguments: Sequence[str]) -> bool:
    """Whether flags, environment or files ask for a controller beside the nameserver.

    What is wrong with them is for the process to say that reads them next.
    """
    parser = _QuietParser(add_help=False)
    try:
        _, config_loaded, _ = load_all(
            parser, [RoleOptions, NameServerConfig, Budget], arguments, others=None
        )
    except ConfigError:
        return False
    config: NameServerConfig = config_loaded.config
    return config.enable_controller_in_namesrv


class _QuietParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError("arguments", message)


if __name__ == "__main__":
    sys.exit(main())
