"""Rewrites what docs/ derives from code and tests: `make docs`."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.behaviour_page import behaviour_page
from docs.compatibility_page import compatibility_page, requests_page
from docs.events_page import events_page
from docs.movement_page import movement_chart, movement_page
from docs.profiles_page import profiles_page
from docs.protocol_pages import codes_page, headers_page
from docs.store_page import store_files_page, store_tools_page
from docs.sync_stub import sync_stub

from pocketmq.runtime.configuration.option_types import as_text
from pocketmq.runtime.configuration.options import OptionDescription, describe, section_of

DOCS = Path(__file__).parent
PORTIONS = (
    "runtime",
    "protocol",
    "operation",
    "nameserver",
    "controller",
    "broker",
    "client",
    "proxy",
    "pipeline",
    "cluster",
    "testing",
    "simulation",
)


def config_classes() -> Iterator[type[Any]]:
    """Every configuration dataclass, in the order of folders and files; the base of another has
    no section of its own."""
    found = list(_all_config_classes())
    for each in found:
        if not any(other is not each and issubclass(other, each) for other in found):
            yield each


def _all_config_classes() -> Iterator[type[Any]]:
    for portion in PORTIONS:
        try:
            package = importlib.import_module(f"pocketmq.{portion}")
        except ModuleNotFoundError:
            continue
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if found.name.endswith("__main__"):
                continue
            module = importlib.import_module(found.name)
            for member in vars(module).values():
                if (
                    isinstance(member, type)
                    and member.__module__ == module.__name__
                    and dataclasses.is_dataclass(member)
                    and isinstance(getattr(member, "section", None), str)
                ):
                    yield member


def config_page() -> str:
    """All options as Markdown tables, one for each section."""
    lines = [
        "# Options",
        "",
        "Made by `make docs` from the declarations; do not edit.",
        "",
        "A value comes from the first of: flag, environment variable, TOML file (`--config`),",
        "`broker.conf` (`-c`), default.",
        "In TOML the table is the section and the key the flag's name with underscores.",
        "A key that the command does not use is an error; where several processes read one file,",
        "each is given it with `--shared-config`, and leaves the tables of the others alone.",
        "What is live acts at once when it is changed in a running broker or nameserver, with",
        "`pocketmq config set`; all else acts after a restart.",
    ]
    for config_class in config_classes():
        summary = (config_class.__doc__ or "").strip().splitlines()[0]
        lines += [
            "",
            f"## [{section_of(config_class)}]",
            "",
            summary,
            "",
            "| flag | environment | broker.conf | type | default | meaning | live | rule |",
            "|---|---|---|---|---|---|---|---|",
            *(_row(each) for each in describe(config_class)),
        ]
    return "\n".join([*lines, ""])


def _row(each: OptionDescription) -> str:
    kind = " ".join(f"`{word}`" for word in each.choices) or each.type_name
    default = as_text(each.default)
    if default and each.unit:
        default += f" {each.unit}"
    of = f" Of: {', '.join(each.roles)}." if each.roles else ""
    cells = (
        f"`{each.flag}`",
        f"`{each.env}`",
        f"`{each.rocketmq_name}`",
        kind,
        f"`{default}`" if default else "",
        each.help.replace("|", "\\|") + of,
        "yes" if each.live else "",
        each.rule,
    )
    return "| " + " | ".join(cells) + " |"


PAGES = {
    "generated/config.md": config_page,
    "generated/codes.md": codes_page,
    "generated/headers.md": headers_page,
    "generated/events.md": events_page,
    "generated/profiles.md": profiles_page,
    "generated/movement.md": movement_page,
    "generated/movement.svg": movement_chart,
    "behaviour.md": behaviour_page,
    "compatibility.md": compatibility_page,
    "generated/requests.md": requests_page,
    "store-files.md": store_files_page,
    "store-tools.md": store_tools_page,
    "../client/pocketmq/client/sync/__init__.pyi": sync_stub,
}


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(page(), encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
