"""`pocketmq fault-proxy`: a proxy in the foreground that prints a line for each firing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import typer

from pocketmq.cluster.faults.proxy import FaultProxy
from pocketmq.operation.faults.rule import CLIENTS, DISK_DEEDS, FaultRule, WrongFaultError
from pocketmq.operation.faults.rule_book import RuleBook
from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.words import counted

ROLE = "proxy"
"""As which rules may name it."""

LOOK_S = 0.05


def check_reachable(rules: Sequence[FaultRule]) -> None:
    """Refuse rules that could never fire in a proxy.

    Raises:
        WrongFaultError: One is about a disk, or about a role that is not the proxy.
    """
    for rule in rules:
        sides = {rule.role, rule.other} - {None, ROLE, CLIENTS}
        if rule.do in DISK_DEEDS:
            raise WrongFaultError(
                f"{rule.id}: fault-proxy has no disk, so {rule.do} never fires; leave the rule out"
            )
        if sides:
            named = ", ".join(sorted(map(str, sides)))
            raise WrongFaultError(
                f'{rule.id}: fault-proxy has no role {named}; the values of "role" and "other" can '
                f'only be "{ROLE}" or "{CLIENTS}"; change the value, or leave out "role"'
            )


async def run_proxy(to: str, listen: str, rules: Sequence[FaultRule]) -> None:
    """Forward connections until interrupted.

    Args:
        to: `host:port` of the process behind.
        listen: `host:port` where clients come.
        rules: Checked.

    Raises:
        ConfigError: An address is malformed.
        WrongFaultError: A rule could never fire here.
        PortInUseError: Somebody else listens there.
    """
    check_reachable(rules)
    clock = SystemClock()
    book = RuleBook(ROLE, clock.time_ms)
    book.replace(rules, {})
    try:
        host, port = split_address(listen)
        proxy = FaultProxy(host, port, to, book)
    except ValueError as exc:
        raise ConfigError("to or listen", str(exc)) from exc
    told = 0
    async with proxy:
        typer.echo(f"{proxy.address} -> {to}, {counted(len(rules), 'rule')}; Ctrl-C ends it")
        while True:
            # Polled, because rules fire in the middle of a frame, which must not wait for a
            # terminal.
            for firing in book.since(told):
                told = firing.number
                typer.echo(msgspec.json.encode(firing).decode())
            await clock.sleep(LOOK_S)
