"""Follows pages as a reader does who has an empty folder and an empty environment.

`Reader.follow` goes through a page: it installs what the page installs, where the page does; types
its commands into a shell; starts the servers that it starts; types its Python into one process; and
compares what is printed with what is shown. Only ports are others.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from pocketmq.pipeline.spark.package import platform_name
from support.java import SHORT_LIVED
from support.readers_python import ReadersPython

NAMESERVER: Final = "127.0.0.1:9876"
"""Name servers on the pages; the reader's own are put in their place."""
PLATFORM: Final = "Python 3.11, Linux x86_64"
"""The one on the pages."""

INSTALL: Final = "install"
"""The language of a piece that names what to install."""

PIECE: Final = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^>]+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$"
    r"|pip install (?P<wanted>[^`#\n]+)",
    re.MULTILINE | re.DOTALL,
)

TYPED: Final = """
import json, sys
page = {"__name__": "__main__"}
for line in sys.stdin:
    exec(compile(json.loads(line), "a block of the page", "exec"), page)
    print("\\n" + sys.argv[1], flush=True)
"""
END: Final = "-- end of what the block prints --"

SPARK_STARTS: Final = re.compile(
    r"(?m)^(NOTE: Picked up JDK_JAVA_OPTIONS"
    r"|WARNING: Using incubator modules"
    r"|Using Spark's default log4j profile"
    r"|Setting (default|Spark) log level"
    r"|To adjust logging level"
    r"|\d\d/\d\d/\d\d \S+ WARN NativeCodeLoader).*\n"
)
"""What Java and Spark say of themselves when they start."""


class Piece(NamedTuple):
    """A block, or words behind `pip install`."""

    language: str
    text: str


def pieces(page: str) -> Iterator[Piece]:
    """Of a page, in its order; without the blocks that it says are not run."""
    for match in PIECE.finditer(page):
        if match["wanted"]:
            yield Piece(INSTALL, match["wanted"])
        elif not match["reason"]:
            yield Piece(match["language"], match["text"])


def not_run(page: str) -> dict[str, str]:
    """The blocks that a page says are not run, and its reasons."""
    return {each["text"]: each["reason"] for each in PIECE.finditer(page) if each["reason"]}


def indented_blocks(page: str) -> list[str]:
    """First lines of blocks without a fence, which nobody would run."""
    text = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\n\n( {4}.*)", text)


def installed_by(page: str) -> list[str]:
    """What the page's `pip install` lines name."""
    lines = re.findall(r"pip install ([^`#\n]+)", page)
    return [word for line in lines for word in shlex.split(line)]


def shown(text: str) -> list[str]:
    """The lines of an output, to compare."""
    return [line.rstrip() for line in text.strip().splitlines() if line.strip()]


class Reader:
    """Starts with an empty folder `folder`; what it has started ends with the context."""

    def __init__(
        self,
        place: Path,
        wheel: Path,
        *,
        addresses: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            place: An empty folder for what the reader has.
            wheel: What `pip install pocketmq` installs.
            addresses: Servers that no page starts: their address on the pages, and here.
            variables: What the reader's processes have in their environment besides.
        """
        self.folder = place / "reader"
        self.home = place / "home"
        for each in (self.folder, self.home):
            each.mkdir(parents=True)
        self.environment = ReadersPython(place / "environment", wheel)
        self.addresses = dict(addresses or {})
        """Servers that run: their address on the pages, and here."""
        self._given = dict(variables or {})
        self._servers: list[subprocess.Popen[str]] = []
        self._typed: subprocess.Popen[str] | None = None
        self._errors = place / "errors.txt"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ended = 0
        if self._typed is not None:
            self._typed.communicate()
            ended = self._typed.returncode
        for server in self._servers:
            server.send_signal(signal.SIGINT)
            server.communicate()
        assert ended == 0 or error, self.errors

    @property
    def errors(self) -> str:
        """What the blocks in Python have written to standard error, but for Spark's greeting."""
        return SPARK_STARTS.sub("", self._errors.read_text()) if self._errors.exists() else ""

    def follow(self, page: str) -> None:
        """Do all that a page says, and see what it shows."""
        printed = ""
        for language, text in pieces(page):
            if language == "text":
                assert shown(printed) == shown(text), f"{text}is shown, and printed:\n{printed}"
                printed = ""
                continue
            assert not shown(printed), f"prints more than is shown: {printed}"
            if language == INSTALL:
                self.install(text)
            elif language == "console":
                self.commands(text)
            else:
                assert language == "python", f"a block that is not run: {language}"
                printed = self.python(text)
        assert not shown(printed), f"prints more than is shown: {printed}"

    def install(self, wanted: str) -> None:
        """What `pip install` with these words does."""
        self.environment.install(shlex.split(wanted))

    def commands(self, text: str) -> dict[str, str]:
        """Type each line behind `$ `; what it printed. It is compared where the page shows it."""
        printed = {}
        for typed, below in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            words = shlex.split(typed)
            if words[:2] == ["pip", "install"]:
                self.environment.install(words[2:])
            elif words[:2] == ["pocketmq", "up"]:
                words += ["--any-port", "--control-port", "-1", "--exit-with-parent"]
                self.addresses[NAMESERVER] = self._start(words)
            else:
                printed[typed] = self._shell(typed)
                if below:
                    wanted = shown(below.replace(PLATFORM, platform_name()))
                    assert _says(wanted, shown(printed[typed])), printed[typed]
        return printed

    def python(self, text: str) -> str:
        """What a block prints; blocks go to one process, one after the other."""
        if self._typed is None:
            with self._errors.open("w") as errors:
                self._typed = subprocess.Popen(
                    [str(self.environment.python), "-c", TYPED, END],
                    cwd=self.folder,
                    env=self._variables(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
        assert self._typed.stdin is not None
        assert self._typed.stdout is not None
        for on_page, address in self.addresses.items():
            text = text.replace(on_page, address)
        self._typed.stdin.write(json.dumps(text) + "\n")
        self._typed.stdin.flush()
        printed = ""
        for line in self._typed.stdout:
            if line.rstrip() == END:
                return printed
            printed += line
        raise AssertionError(f"{text}\nprinted {printed}\nand ended with {self.errors}")

    def _variables(self) -> dict[str, str]:
        """The environment of the reader's processes; the test's own Python is not in its path."""
        path = os.environ["PATH"].split(os.pathsep)
        others = [each for each in path if Path(each) != Path(sys.executable).parent]
        found = {name: os.environ[name] for name in ("LANG", "JAVA_HOME") if name in os.environ}
        found |= self._given | {
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(self.environment.programs), *others]),
            "JDK_JAVA_OPTIONS": " ".join(SHORT_LIVED),
        }
        if NAMESERVER in self.addresses:
            found["NAMESRV_ADDR"] = self.addresses[NAMESERVER]
        return found

    def _shell(self, typed: str) -> str:
        done = subprocess.run(
            ["bash", "-c", typed],
            cwd=self.folder,
            env=self._variables(),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        errors = re.sub(r"(?m)^pocketmq: there is no \w+\n", "", done.stderr)  # nothing is listed
        errors = SPARK_STARTS.sub("", errors)
        assert (done.returncode, errors) == (0, ""), (typed, done.stdout, done.stderr)
        return done.stdout

    def _start(self, words: list[str]) -> str:
        """Start a cluster in a terminal of its own; its name servers, when it can be used."""
        words[0] = str(self.environment.programs / words[0])
        server = subprocess.Popen(
            words,
            cwd=self.folder,
            env=self._variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._servers.append(server)
        assert server.stdout is not None
        printed = ""
        for line in server.stdout:
            printed += line
            if "Ctrl-C" in line:
                (found,) = re.findall(r"^NAMESRV_ADDR=(.*)$", printed, re.MULTILINE)
                return str(found)
        raise AssertionError(f"{words} has ended: {printed}")


def _says(wanted: list[str], printed: list[str]) -> bool:
    """Whether this was printed, where `...` stands for any text."""
    pattern = ".*".join(map(re.escape, "\n".join(wanted).split("...")))
    return re.fullmatch(pattern, "\n".join(printed), re.DOTALL) is not None
