"""`pocketmq`: runs a command, and prints errors.

An error that the user can correct is one line on standard error, with exit status 1; a wrong
command line is one line, with status 2. `--debug`, anywhere on the line, adds the traceback;
`--version` as the last word shows the versions, whatever command is before it.
"""

from __future__ import annotations

from pocketmq.runtime.interrupts import end_quietly, interrupt_again

if __name__ == "__main__":
    end_quietly()  # until everything is imported; the installed command begins in entry.py

import errno
import importlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from io import TextIOBase
from pathlib import Path
from typing import Any

# First: keeps structlog from importing rich in processes that never print in colour.
from pocketmq.runtime import logs
from pocketmq.runtime.errors import DiskError, PocketMQError
from pocketmq.runtime.process import report

import typer  # isort: skip

from pocketmq.cluster.cli import version  # isort: skip

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "roles.server": ("nameserver", "controller", "broker", "proxy", "up"),
    "jobs.demo": ("demo",),
    "roles.clock": ("clock",),
    "kept.topic": ("topic",),
    "kept.group": ("group",),
    "messages.message": ("send", "consume", "message"),
    "jobs.store": ("store",),
    "jobs.pipeline": ("pipeline",),
    "roles.config": ("config",),
    "roles.steer": ("ps", "logs", "freeze", "thaw", "kill", "restart", "seed"),
    "roles.readiness": ("ready", "down"),
    "roles.failover": ("failover",),
    "roles.fault": ("partition", "fault-proxy", "fault"),
    "roles.snapshot": ("wipe", "reset", "snapshot"),
    "roles.cluster": ("cluster",),
    "roles.watch": ("watch",),
    "jobs.lab": ("lab",),
    "roles.connections": ("connections",),
    "roles.doctor": ("doctor",),
    "messages.explain": ("explain",),
    "kept.access": ("user", "acl"),
}
"""The modules in the folders beside this one, and their commands, as `--help` lists them."""

WHO = "pocketmq"
"""What one-line errors begin with."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_WRONG_PLACE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
)
"""A file that cannot be opened or made where a user named it."""
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Of these, what may be wrong with a file inside a folder that a user named."""

INTRO = """RocketMQ's architecture as small Python processes.

\b
Try it:
  pocketmq up                      nameserver and broker; Ctrl-C stops them
  pocketmq topic create orders     in a second terminal
  pocketmq send orders "hello" --tag new
  pocketmq consume orders --count 1
  pocketmq demo                    336,776 flights through 2+2 processes

Commands use the cluster that runs on this machine. To use another cluster, name its nameservers
with --nameservers or the variable NAMESRV_ADDR. `pocketmq COMMAND --help` shows examples.
"""


def make_app(words: Sequence[str] = ()) -> typer.Typer:
    """The command line; only the module of the command that `words` begin with is imported."""
    app = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,  # a bug in PocketMQ shows the plain traceback
    )
    app.callback(help=INTRO, context_settings={"help_option_names": ["-h", "--help"]})(_pocketmq)
    # Only the module that is asked for: importing all would dominate a short command's time.
    asked = [name for name, commands in COMMANDS.items() if words and words[0] in commands]
    for name in asked or COMMANDS:
        importlib.import_module(f"pocketmq.cluster.cli.{name}").register(app)
    return app


def _pocketmq(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    _version: bool = typer.Option(
        False,
        "--version",
        is_eager=True,
        callback=version.show_version,
        help="Show the versions of PocketMQ, Python, the event loop and RocketMQ's rules.",
    ),
) -> None:
    """`main` removes `--debug` from the line before; it is declared here for `--help` only."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    # entry.py's handler ends the process at once; from here on Ctrl-C lets a command clean up.
    interrupt_again()
    words = list(sys.argv[1:] if arguments is None else arguments)
    # After `--` all words are values: a message's body may be `--debug`.
    rest = words.index("--") if "--" in words else len(words)
    if "--debug" in words[:rest]:
        words.remove("--debug")
        os.environ["POCKETMQ_DEBUG"] = "1"
    # Typer takes --version only before the command, but people also type it at the end.
    if words[-1:] == ["--version"] and rest == len(words):
        words = ["--version"]
    logs.configure("debug" if "POCKETMQ_DEBUG" in os.environ else "error")
    try:
        status = make_app(words)(words, prog_name="pocketmq", standalone_mode=False)
    except PocketMQError as exc:
        return report(exc, WHO)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `pocketmq consume ... | head`: the reader has closed the pipe
        # Python flushes standard output at exit, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit:
        if isinstance(sys.stdout, TextIOBase):
            raise
        return 0  # typer saw the closed pipe first, and has put something else in its place
    except OSError as exc:
        # Only for files that the user named: any other error is a defect and needs its traceback.
        if exc.errno in _WRONG_PLACE and _is_named(exc, words):
            advice = "name another file or folder"
            return report(
                DiskError(os.fsdecode(exc.filename), str(exc.strerror), advice=advice), WHO
            )
        if exc.errno not in _NO_ROOM:
            raise
        # Buffered text would fail again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"{WHO}: cannot write: {exc.strerror}", file=sys.stderr)
        return 1
    except Exception as exc:
        # Typer's error classes are not public, so they are recognized by name.
        if type(exc).__name__ == "Abort":
            return 130
        if not hasattr(exc, "format_message"):
            raise
        return _usage_error(exc, words)
    return status if isinstance(status, int) else 0


def _is_named(exc: OSError, words: Sequence[str]) -> bool:
    """Whether an error is about a file that the user named; any other is a defect of ours.

    Args:
        exc: Its file may lie above what was named, as where folders are made, and, if it is only
            not allowed, below it or below the working directory.
        words: The command line; a word may name more files, as `store:one,two`.
    """
    if not isinstance(exc.filename, str | bytes | os.PathLike):
        return False
    failed = Path(os.path.abspath(os.fsdecode(exc.filename)))
    parts = [part for word in words for part in (word, *re.split("[=,:]", word)) if part]
    named = [Path(os.path.abspath(os.path.expanduser(part))) for part in parts]
    # A parent of a named path: `--data a/b/c` fails at `a` if that cannot be created.
    if any(path.is_relative_to(failed) for path in named):
        return True
    # A file inside a named folder, such as a broker's.
    is_inside = any(failed.is_relative_to(path) for path in (*named, Path.cwd()))
    return is_inside and exc.errno in _NOT_ALLOWED


def _usage_error(exc: Exception, words: Sequence[str]) -> int:
    """Print one line about a wrong command line; typer's own error types are not public."""
    context = getattr(exc, "ctx", None)
    command = context.command_path if context is not None else "pocketmq"
    message = exc.format_message().strip().rstrip(".")  # type: ignore[attr-defined]
    if type(exc).__name__ == "NoArgsIsHelpError":  # its message is the complete help
        print(message)
    else:
        message = _advised(exc, message, words)
        message = " ".join(message.replace("Value error, ", "").split())  # choices come in lines
        message = message.replace(". Did you mean", "; did you mean")
        first, rest = message[:1].lower(), message[1:]
        mark = "" if rest.endswith("?") else ";"
        print(f"{command}: {first}{rest}{mark} see `{command} --help`", file=sys.stderr)
    return 2


def _advised(exc: Exception, message: str, words: Sequence[str]) -> str:
    """The same with what to type, where typer's own words do not say it.

    Args:
        exc: Of typer.
        message: Its own, without the full stop.
        words: The command line.
    """
    for error in getattr(exc.__cause__, "errors", list)():  # pydantic's
        info = getattr(getattr(exc, "param", None), "get_runtime_param", lambda: None)()
        bounds = getattr(info, "parameter_info", None)
        # Pydantic's message names its constraint instead of what the user may write.
        advice = _about_number(error, getattr(bounds, "min", None), getattr(bounds, "max", None))
        return message.replace(str(error["msg"]).rstrip("."), advice) if advice else message
    # The parser takes a value such as -5 for an option.
    if re.match(r"No such option: -\d", message):
        return f"{message}; if it is a value, write -- before it"
    if message.startswith("No such command") and "Did you mean" not in message:
        if swapped := _swapped(words):
            return f"{message}; write `pocketmq {swapped}`"
        context = getattr(exc, "ctx", None)
        names = list(getattr(getattr(context, "command", None), "commands", ()))
        # A group has few commands to list; for all commands the main help is better.
        if context is not None and context.parent is not None:
            return f"{message}; write {' or '.join(names)}"
    return message


def _about_number(error: Mapping[str, Any], least: float | None, most: float | None) -> str:
    """What is wrong with a number, and which to write; empty of any other error."""
    given = error.get("input")
    if error["type"] in ("int_parsing", "float_parsing"):
        whole = "whole " if error["type"] == "int_parsing" else ""
        return f"{given!r} is no {whole}number"
    if error["type"] not in ("greater_than_equal", "less_than_equal"):
        return ""
    wanted = f"{least:g} to {most:.15g}" if least is not None and most is not None else ""
    if error["type"] == "greater_than_equal":
        return f"{given} is too small; write {wanted or f'{least:g} or more'}"
    return f"{given} is too large; write {wanted or f'{most:.15g} or less'}"


def _swapped(words: Sequence[str]) -> str | None:
    """`group explain` of `explain group`: the first two words turned, if that is a command."""
    if len(words) < 2 or not any(words[1] in commands for commands in COMMANDS.values()):
        return None
    app = typer.main.get_command(make_app([words[1]]))
    group = getattr(app, "commands", {}).get(words[1])
    return f"{words[1]} {words[0]}" if words[0] in getattr(group, "commands", ()) else None


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        end_quietly()  # while Python itself ends
