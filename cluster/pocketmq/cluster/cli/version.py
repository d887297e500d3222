"""`pocketmq --version`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import typer

from pocketmq.runtime.profile import DEFAULT_PROFILE, profile_named


def show_version(wanted: bool) -> None:
    """Print versions and end, if `--version` was given."""
    if not wanted:
        return
    for line in lines():
        typer.echo(line)
    raise typer.Exit


def lines() -> list[str]:
    """What a report of a problem needs."""
    profile = profile_named(DEFAULT_PROFILE)
    release = ".".join(map(str, profile.release))
    return [
        f"pocketmq {version('pocketmq')}",
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        f"uvloop {_installed('uvloop')}",
        f"profile {DEFAULT_PROFILE}: as RocketMQ {release}",
    ]


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
