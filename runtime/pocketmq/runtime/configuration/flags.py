"""Options on a command line: the flags of a parser with their help, and a child's arguments."""

from __future__ import annotations

import argparse
from typing import Any

from pocketmq.runtime.configuration.option_types import as_text, unwrap_optional
from pocketmq.runtime.configuration.options import OptionDescription, describe, section_of


def add_arguments(parser: argparse.ArgumentParser, *config_classes: type[Any]) -> None:
    """Give `parser` one flag per option; an absent flag yields None, so that `load` looks on."""
    for config_class in config_classes:
        group = parser.add_argument_group(section_of(config_class))
        for each in describe(config_class):
            text = each.help.replace("%", "%%") + _default_text(each).replace("%", "%%")
            inner, _ = unwrap_optional(each.annotation)
            if inner is bool:
                group.add_argument(
                    each.flag,
                    dest=each.name,
                    action=argparse.BooleanOptionalAction,
                    default=None,
                    help=text,
                )
            else:
                group.add_argument(
                    each.flag,
                    dest=each.name,
                    default=None,
                    metavar=each.type_name.upper() if not each.choices else None,
                    choices=each.choices or None,
                    help=text,
                )


def _default_text(each: OptionDescription) -> str:
    if each.default is None or each.default in ("", (), []):
        return ""
    unit = f" {each.unit}" if each.unit else ""
    return f" [default: {as_text(each.default)}{unit}]"
