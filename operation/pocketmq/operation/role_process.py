"""A role as a process: its command line, what connects it to others, errors in one line.

    # pocketmq/nameserver/__main__.py
    def main(arguments: Sequence[str] | None = None) -> int:
        return run_command("nameserver", [NameServerConfig], _prepare, arguments)

    def _prepare(command: RoleCommand) -> tuple[str, RoleMain]:
        config = command.config(NameServerConfig)
        async def serve(role: RoleContext) -> None:
            seams = seams_of(config.name, role, command)
            ...                         # everything heavy is imported in here
        return config.name, serve

Import this module before anything else that is not the standard library, because it imports
`runtime.process` first (`runtime.logs` says why).
"""

from __future__ import annotations

from pocketmq.runtime.process import (  # isort: skip  - first
    RoleContext,
    RoleMain,
    RoleOptions,
    RoleParser,
    load_all,
    report,
    run_role,
    toml_file,
)

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pocketmq.operation.membership.options import SecurityOptions
from pocketmq.protocol.budget import Budget
from pocketmq.runtime.configuration.config import load
from pocketmq.runtime.errors import ConfigError

if TYPE_CHECKING:
    from pocketmq.operation.faulty_network.faulty_tcp import FaultyTcp
    from pocketmq.operation.role_seams import RoleSeams

C = TypeVar("C")


class RoleCommand:
    """What a role's process was started with.

    Args:
        role: `broker`, ...
        config_classes: The role's own options.
        arguments: The command line, by default this process's.
        program: How the user calls it; `python -m pocketmq.<role>` by default.
        others: Classes that are read from the environment and the files only.

    Raises:
        ConfigError: A value or a file is wrong.
    """

    def __init__(
        self,
        role: str,
        config_classes: Sequence[type[Any]],
        arguments: Sequence[str] | None = None,
        *,
        program: str | None = None,
        others: Sequence[type[Any]] = (),
    ) -> None:
        parser = RoleParser(
            prog=program or f"python -m pocketmq.{role}", description=f"A PocketMQ {role}."
        )
        classes: list[type[Any]] = [RoleOptions, *config_classes, Budget, SecurityOptions]
        loaded = load_all(parser, classes, arguments, others=others)
        self._loaded = dict(zip(classes, loaded, strict=True))
        self._files = parser.parse_args(arguments)
        self.options = self.config(RoleOptions)
        self.budget = self.config(Budget)
        self.security = self.config(SecurityOptions)
        self.broker_conf: str | None = self._files.broker_conf
        """The properties file (`-c`) that it was started with."""

    def config(self, config_class: type[C]) -> C:
        """The role's options of one class."""
        found: C = self._loaded[config_class].config
        return found

    def is_default(self, config_class: type[Any], field: str) -> bool:
        """Whether nobody chose a value for this option."""
        return bool(self._loaded[config_class].origins[field] == "default")

    def without_flags(self, config_class: type[C]) -> C:
        """Options of another class, from the environment and the files.

        Raises:
            ConfigError: A value or a file is wrong.
        """
        # The same files as the role's own options: one file may have all of them.
        conf = self.broker_conf
        return load(
            config_class,
            {},
            os.environ,
            toml_file(vars(self._files)),
            broker_conf=Path(conf) if conf else None,
        ).config


def run_command(
    role: str,
    config_classes: Sequence[type[Any]],
    prepare: Callable[[RoleCommand], tuple[str, RoleMain]],
    arguments: Sequence[str] | None = None,
    *,
    program: str | None = None,
    others: Sequence[type[Any]] = (),
) -> int:
    """Run a role until it is told to stop; the process's exit status.

    Args:
        role: `broker`, ...
        config_classes: See `RoleCommand`, as for `arguments`, `program` and `others`.
        prepare: Makes the name and the main function of what was loaded; may raise `ConfigError`.
    """
    try:
        command = RoleCommand(role, config_classes, arguments, program=program, others=others)
        name, serve = prepare(command)
    # One line on stderr: a wrong option is no reason for a traceback.
    except ConfigError as exc:
        return report(exc, role)
    return run_role(serve, role=role, name=name, options=command.options)


def seams_of(name: str, role: RoleContext, command: RoleCommand) -> RoleSeams[FaultyTcp]:
    """What connects the process of this name to others; raises what `role_seams` does."""
    # Imported here, so that `--help` and a wrong option are answered without loading the network.
    from pocketmq.operation.faulty_network.faulty_tcp import FaultyTcp
    from pocketmq.operation.role_seams import role_seams

    return role_seams(
        name,
        role.clock,
        command.security,
        role.tasks,
        FaultyTcp,
        all_events=command.options.events,
    )
