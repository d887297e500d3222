"""structlog set up once per process: words for people on a terminal, JSON lines otherwise.

This module must be a role process's first import: structlog imports rich when it finds it, for
pretty tracebacks that we do not use, and that costs 0.1 s and 8 MiB in every process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, Literal, TextIO, cast

if "structlog" not in sys.modules and "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # makes `import rich` fail for a moment
    try:
        import structlog
    finally:
        del sys.modules["rich"]
else:
    import structlog

from pocketmq.runtime.errors import ConfigError

LogFormat = Literal["auto", "console", "json"]

Processor = Callable[[Any, str, MutableMapping[str, Any]], MutableMapping[str, Any]]

_quiet: list[list[Any]] = []
"""The processors that `configure_if_unset` set up last."""

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def go_nowhere(stream: TextIO) -> None:
    """Drop what is written to a stream from now on, and what waits in it: nobody reads it.

    Without this Python writes the rest when it ends, fails again, and exits with 120.

    Raises:
        OSError: The stream is none of the system's.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


class _NeverFails:
    """A stream that does not raise: a log that cannot be written must not stop who logs.

    `pocketmq broker 2>&1 | head` ends the reader; a log file's disk may be full. Without this, the
    line that tells of SIGTERM would raise before the role is asked to stop.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        self._try(lambda: self._stream.write(text))

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, act: Callable[[], object]) -> None:
        # A closed stream raises ValueError, which is no OSError.
        if self._stream.closed:
            return
        try:
            act()
        except BrokenPipeError:
            with contextlib.suppress(OSError):
                go_nowhere(self._stream)
        except OSError:  # a full disk, say; the next line may find room
            pass


def configure(
    level: str = "info",
    fmt: LogFormat = "auto",
    *,
    stream: TextIO | None = None,
    first: Processor | None = None,
) -> None:
    """Send log lines of at least `level` to `stream`.

    Calls below the level cost one method call that does nothing.

    Args:
        level: debug, info, warning or error.
        fmt: `console` has colours on a terminal, `json` is one object a line, `auto` is console on
            a terminal and json otherwise.
        stream: Standard error by default; standard output belongs to a role's ready line.
        first: A structlog processor that sees each line first, and may keep it to itself
            (`structlog.DropEvent`).

    Raises:
        ConfigError: The level does not exist.
    """
    if level.lower() not in _LEVELS:
        raise ConfigError(
            "log_level", f"{level!r} is not a log level; choose from {', '.join(_LEVELS)}"
        )
    # Look `sys.stderr` up now: tests and tools replace it.
    target = sys.stderr if stream is None else stream
    tty = target.isatty()
    console = fmt == "console" or (fmt == "auto" and tty)
    processors: list[Any] = [
        *([] if first is None else [first]),
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if console:
        processors.append(
            structlog.dev.ConsoleRenderer(
                colors=tty,
                # Not rich's formatter, where that is installed: logs look the same everywhere.
                exception_formatter=structlog.dev.plain_traceback,
            )
        )
    else:
        processors += [structlog.processors.format_exc_info, _json_line]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level.lower()]),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _NeverFails(target))),
        cache_logger_on_first_use=False,  # capture_logs() and a later configure() must be seen
    )


def configure_if_unset() -> None:
    """Be quiet in a program that uses PocketMQ as a library and has set up no logs of its own.

    structlog as it comes prints everything from debug on to standard output.
    """
    if not structlog.is_configured():
        configure("warning")
        _quiet.append(structlog.get_config()["processors"])
        # structlog has one configuration, so an older one is not needed.
        del _quiet[:-1]


def is_set_by_program() -> bool:
    """Whether logs were set up by anything but `configure_if_unset`."""
    if not structlog.is_configured():
        return False
    return not any(each is structlog.get_config()["processors"] for each in _quiet)


def _json_line(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    import msgspec  # only who writes JSON pays for it

    line = {"timestamp": event.pop("timestamp", None), "level": event.pop("level", None), **event}
    try:
        return msgspec.json.encode(line, enc_hook=_as_text).decode()
    except (TypeError, ValueError, OverflowError):
        # Lone surrogates, keys that are no text, numbers over 64 bits: what a peer sent must never
        # make the line about it fail.
        return msgspec.json.encode(
            {str(key): _as_text(value) for key, value in line.items()}
        ).decode()


def _as_text(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text.encode("utf-8", "backslashreplace").decode()
