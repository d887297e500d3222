"""`pocketmq config show`: every option, its value, and where the value comes from."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from pocketmq.cluster.cli.common.output import Sentences
from pocketmq.cluster.cli.common.output import show as show_rows
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.roles import config_live
from pocketmq.cluster.cli.roles.config_file import Role, config_classes, refuse_unused_by
from pocketmq.runtime.configuration.config import load, unknown_names
from pocketmq.runtime.configuration.option_types import as_text
from pocketmq.runtime.configuration.options import describe

SHOW_HELP = """Show a role's options, and where each value comes from.

If several places set an option, the first place in this list counts: flag, environment variable,
TOML file, broker.conf, default.

\b
Examples:
  pocketmq config show broker
  pocketmq config show broker --broker-conf broker.conf --changed
  POCKETMQ_BROKER_PORT=10921 pocketmq config show broker --changed
  pocketmq config show up --config cluster.toml
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("show", help=SHOW_HELP)(show)
    group.command("get", help=config_live.GET_HELP)(config_live.get)
    group.command("set", help=config_live.SET_HELP)(config_live.set_options)
    app.add_typer(group, name="config", help="Show options; change options of running roles.")


@dataclass(frozen=True, slots=True)
class OptionView:
    """One option of a role."""

    option: str
    """Its name in a TOML file."""
    value: str
    unit: str
    origin: str
    help: str


def option_table(found: list[OptionView]) -> Table:
    """A row for each."""
    rows = [(each.option, f"{each.value} {each.unit}".strip(), each.origin) for each in found]
    return Table("option", ("option", "value", "from"), rows, kept_whole="option")


def show(
    role: Annotated[Role, typer.Argument(help="Whose options.")],
    config: Annotated[Path | None, typer.Option(metavar="TOML", help="TOML file.")] = None,
    broker_conf: Annotated[
        Path | None, typer.Option("--broker-conf", "-c", help="RocketMQ properties file.")
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only options that differ from their defaults.")
    ] = False,
    output: Sentences = None,
) -> None:
    classes = config_classes(role)
    if config is not None:
        # The role would refuse such a file, and only what would run is shown.
        refuse_unused_by(role, config, broker_conf)
    found: list[OptionView] = []
    for config_class in classes:
        loaded = load(config_class, {}, os.environ, config, broker_conf=broker_conf)
        for each in describe(config_class):
            # Roles share option classes, but not every option applies to every role.
            if each.roles and role not in each.roles:
                continue
            origin = loaded.origins[each.name]
            if changed and origin == "default":
                continue
            # A secret's value must not get into a terminal's history or a bug report.
            value = "***" if each.secret else as_text(getattr(loaded.config, each.name))
            found.append(OptionView(each.toml, value, each.unit or "", origin, each.help))
    if output is None:
        for view in found:
            unit = f" {view.unit}" if view.unit else ""
            typer.echo(f"{view.option + ' = ' + view.value + unit:58} # {view.origin}: {view.help}")
    else:
        show_rows(output, [asdict(view) for view in found], option_table(found))
    # On standard error, after the options: RocketMQ's files often have keys unknown to PocketMQ.
    for name in unknown_names(classes, os.environ, broker_conf):
        typer.echo(f"unknown and ignored: {name}", err=True)
