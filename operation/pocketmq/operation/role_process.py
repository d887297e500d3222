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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pocketmq.operation.membership.options import SecurityOptions
from pocketmq.protocol.budget import Budget
from pocketmq.runtime.configuration.config import load
from pocketmq.runtime.errors import ConfigError

if TYPE_CHECKING:
    from pocketmq.operation.events.log import EventLog
    from pocketmq.operation.faults.rule_book import RuleBook
    from pocketmq.operation.membership.members import Members
    from pocketmq.protocol.transport.network import Network
    from pocketmq.protocol.transport.tls.server_tls import ServerTls

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


@dataclass(frozen=True, slots=True)
class RoleSeams:
    """What connects a role's process to others."""

    events: EventLog
    rules: RuleBook
    """Faults that somebody told this process to have."""
    network: Network
    tls: ServerTls | None
    """Of the process's ports; None: they take none."""
    members: Members | None
    """Who has proven to be a member of the cluster; None: nobody has to."""


def seams_of(name: str, role: RoleContext, command: RoleCommand) -> RoleSeams:
    """Events, rules for faults, and a network that keeps to them, with TLS as the options say.

    Where members must prove who they are, the network does it.

    Args:
        name: Of the process.
        role: It is.
        command: It was started with.

    Raises:
        ConfigError: the role is to use TLS, or to prove that it is a member, and cannot.
    """
    # Imported here, so that `--help` and a wrong option are answered without loading the network.
    from pocketmq.operation.control.processor import event_log
    from pocketmq.operation.faults.rule_book import RuleBook
    from pocketmq.operation.faulty_network.faulty_tcp import FaultyTcp
    from pocketmq.operation.membership.members import Members
    from pocketmq.operation.membership.network import MemberNetwork
    from pocketmq.operation.tls.role_tls import RoleTls
    from pocketmq.runtime.clock import SystemClock

    clock = role.clock
    # Files change in real time. On a manual clock each look would also be a step of every move: a
    # day took minutes.
    real = SystemClock()
    # Read the secret first: if that fails, the start ends before any port is open.
    secret = command.security.member_secret()
    events = event_log(name, clock, always=command.options.events)
    rules = RuleBook(name, clock.time_ms, events)
    tls = RoleTls(command.security)
    # Without files there is nothing to look at every half second.
    if tls.is_watching:
        role.tasks.start(tls.watch(real), name="watch certificates")
    # Faults act below membership: a partition cuts proofs off, too.
    tcp = FaultyTcp(rules, server_tls=tls.server, client_tls=tls.client)
    if secret is None:
        return RoleSeams(events, rules, tcp, tls.server, None)
    members = Members(secret)
    role.tasks.start(members.watch(real), name="watch member secret")
    return RoleSeams(events, rules, MemberNetwork(tcp, members), tls.server, members)
