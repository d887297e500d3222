"""`pocketmq doctor`: what is wrong with a cluster, and what to type."""

from __future__ import annotations

from dataclasses import asdict

import typer

from pocketmq.cluster.cli.common.output import Output, show
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    run,
)
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.doctor import Check, examine
from pocketmq.runtime.clock import SystemClock

DOCTOR_HELP = """Check a cluster: say what is wrong, and what to type.

The command asks nameservers and brokers from this machine, as clients do. It checks ports,
addresses that brokers register, clocks, disks, versions and the routes of topics. The exit status
is 1 if something is wrong.

\b
Examples:
  pocketmq doctor
  pocketmq doctor -o json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", help=DOCTOR_HELP)(doctor)


def doctor(output: Output = None, nameservers: Nameservers = DEFAULT_NAMESERVERS) -> int:
    found = run(examine(nameserver_addresses(nameservers), SystemClock()))
    show(output, [asdict(each) for each in found], check_table(found))
    return int(any(each.state == "wrong" for each in found))


def check_table(found: list[Check]) -> Table:
    """A row for each thing that was looked at."""
    columns = ("check", "of", "state", "found", "do")
    rows = [(each.what, each.of, each.state, each.found, each.advice or None) for each in found]
    return Table("check", columns, rows)
