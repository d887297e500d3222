"""Types the command lines of a page as its reader does, one after the other, on the ports it names.

    python tests/support/typed_page.py docs/failover.md FOLDER [--files FOLDER]

What runs until it is stopped (`pocketmq up`) runs in a terminal of its own from the line that
starts it to the end of the page. Each other line must succeed in one shell, which keeps variables
and the folder; a comment `# exit status 1` says otherwise. What is shown below a line must be
printed, where `...` is any text and a number is any number. The exit status is 1 where something is
not so.

It runs in a network of its own where the system allows that, so that no port is taken.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from pocketmq.runtime.clock import SystemClock

ROOT: Final = Path(__file__).resolve().parents[2]
PR_SET_CHILD_SUBREAPER: Final = 36
END: Final = "-- status"
LIMIT_S: Final = 240.0
ENDS_S: Final = 60.0
CLOCK: Final = SystemClock()
SECONDS: Final = "3"
"""What is typed for the seconds that a recording takes on a page."""
SERVERS: Final = (
    (r"pocketmq up\b(?!.*--wait-ready)", "Ctrl-C stops"),
    (r"pocketmq watch\b(?!.*--(?:export|record))", "/watch"),
    (r"pocketmq watch\b(?!.*--(?:from|seconds))", "recording"),
    (r"pocketmq consume\b(?!.*--count)", ""),
    (
        r"(?:python -m pocketmq\.|pocketmq )(?:nameserver|broker|controller|proxy)\b(?!.*--help)",
        "READY",
    ),
    (r"pocketmq fault-proxy\b", "127.0.0.2:10911"),
    (r"\S+ java .*ProxyStartup", "startup successfully"),
    (r"pocketmq message tail (?!.*(?:--no-follow|--count|-c|--until) ?)", ""),
)
"""Commands that run until they are stopped, and a word of the line by which they are ready."""
IN_A_CLONE: Final = (".venv", "scripts", "tests", "benchmarks", "recipes", "Makefile")
"""What the reader's folder has of the repository."""

FILE: Final = re.compile(
    r"^<!-- file: (?P<name>[\w.]+) -->\n```\w+\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
"""A block that the reader saves, and its name."""
BLOCK: Final = re.compile(
    r"^(?P<mark><!-- not run: (?P<reason>[^>]+) -->\n)?```(?:console|bash|sh)\n(?P<text>.*?)^```$"
    r"|^<!-- not run: (?P<why>[^>]+) -->\n\n(?: {4}[^\n]*\n)+",
    re.MULTILINE | re.DOTALL,
)
"""One with a fence; or one that is indented, which is never run."""


class Line(NamedTuple):
    """What is typed, and what is shown below it."""

    typed: str
    shown: list[str]


def blocks(page: str) -> list[str]:
    """The text of each block with a fence, also of those that are not run."""
    return [each["text"] for each in BLOCK.finditer(page) if each["text"]]


def reasons(page: str) -> list[str]:
    """Why blocks of a page are not run."""
    return [found for each in BLOCK.finditer(page) if (found := each["reason"] or each["why"])]


def lines(page: str) -> list[Line]:
    """The command lines of a page, without those of blocks that are not run."""
    found: list[Line] = []
    for block in BLOCK.finditer(page):
        if block["mark"] or block["why"]:
            continue
        text = block["text"].replace("\\\n", " ")
        text = re.sub(r"(?<=--seconds )\d+", SECONDS, text)
        for number, line in enumerate(text.splitlines()):
            if line.startswith("$ "):
                found.append(Line(line[2:], []))
            else:
                assert number, f"a block begins without a command: {line}"
                found[-1].shown.append(line)
    return found


def says(shown: list[str], printed: str, *, is_begin: bool = False) -> bool:
    """Whether what is shown was printed; as its begin, if more may come."""
    wanted = _plain("\n".join(shown))
    parts = [re.sub(r"\d+", r"\\d+", re.escape(part)) for part in wanted.split("...")]
    pattern = ".*".join(parts) + (".*" if is_begin else "")
    return re.fullmatch(pattern, _plain(printed), re.DOTALL) is not None


def _plain(text: str) -> str:
    """Without what differs: how wide columns are, where lines break, separators of numbers."""
    plain = re.sub(r"(?<=\d)[,.](?=\d)", "", text)
    plain = re.sub(r"\bbroker-[ab](?=/\d)", "broker-b", plain)  # whichever a send has chosen
    return " ".join(plain.split())


class Server(NamedTuple):
    """What runs in a terminal of its own."""

    typed: str
    process: subprocess.Popen[bytes]
    output: Path


class Reader:
    """The reader's folder, a shell in it, and the terminals in which something runs."""

    def __init__(self, folder: Path) -> None:
        self._servers: list[Server] = []
        self._outputs = folder.parent / "outputs"
        self._outputs.mkdir()
        self._folder = self._where = folder
        self._environment = _environment(folder)
        own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))
        self._screen = own
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=theirs,
            stderr=theirs,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, line: Line) -> None:
        """Type a line; compare what it prints with what is shown.

        Raises:
            AssertionError: It fails, or prints something else.
        """
        begins = False
        for pattern, ready in SERVERS:
            if re.match(pattern, line.typed):
                if not re.search(" (?:watch|consume|message)| --any-port| --port 0", line.typed):
                    self.end(re.split(" +[-#]", line.typed)[0])  # the ports are its
                printed = self._start(line.typed, ready)
                begins = True
                break
        else:
            printed = self._run(line.typed)
        assert not line.shown or says(line.shown, printed, is_begin=begins), (
            f"$ {line.typed}\nis shown to print\n{chr(10).join(line.shown)}\nand printed\n{printed}"
        )

    def close(self) -> None:
        """Stop what still runs.

        Raises:
            AssertionError: It does not end in order.
        """
        self.end("")
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait(timeout=LIMIT_S)

    def _run(self, typed: str) -> str:
        assert self._shell.stdin is not None
        self._shell.stdin.write(
            f"{{ {typed}\n}} </dev/null; printf '%s %s %s\\n' '{END}' $? \"$PWD\"\n"
        )
        self._shell.stdin.flush()
        printed, deadline = b"", CLOCK.monotonic() + LIMIT_S
        while not (ended := re.search(rf"{END} (\d+) (.*)\r?\n".encode(), printed)):
            if select.select([self._screen], [], [], 1.0)[0]:
                printed += os.read(self._screen, 65536)
            assert CLOCK.monotonic() < deadline, f"$ {typed}\ndoes not end: {printed.decode()}"
        said = printed[: ended.start()].decode().replace("\r", "").replace(f"{self._folder}/", "")
        self._where = Path(ended[2].decode().strip())
        wanted = re.search(r"#.*exit status (\d+)", typed)
        assert int(ended[1]) == int(wanted[1] if wanted else 0), (
            f"$ {typed}\nended with status {ended[1].decode()}: {said}"
        )
        return said

    def _start(self, typed: str, ready: str) -> str:
        output = self._outputs / str(len(self._servers))
        with output.open("w") as writing:  # a pipe that nobody reads would be full one day
            server = subprocess.Popen(
                ["bash", "-c", typed],
                cwd=self._where,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._servers.append(Server(typed, server, output))
        while ready not in (printed := output.read_text()):
            if server.poll() is not None:
                self._servers.pop()
                raise AssertionError(f"$ {typed}\nhas ended: {printed}")
            select.select([], [], [], 0.05)
        return printed

    def end(self, start: str) -> None:
        """Press Ctrl-C where commands that begin so run, the latest first."""
        for typed, server, output in reversed(self._servers):
            if not typed.startswith(start) or server.returncode is not None:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGINT)
            server.wait(timeout=LIMIT_S)
            assert server.returncode in (0, 130, -signal.SIGINT), (
                f"$ {typed}\nended with status {server.returncode}: {output.read_text()[-2000:]}"
            )


def _environment(folder: Path) -> dict[str, str]:
    """Of somebody who has activated the environment, and set nothing."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    known = {name: os.environ[name] for name in ("LANG", "JAVA_HOME") if name in os.environ}
    path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    if not (ROOT / ".venv").exists():
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return known | {"HOME": str(home), "PATH": path, "TERM": "dumb", "BROWSER": "true"}


def use_own_network() -> None:
    """127.0.0.1 of a new network is down at first."""
    if ip := shutil.which("ip"):
        subprocess.run([ip, "link", "set", "lo", "up"], check=True)


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """End what a page has left running in the background, and tell of it."""
    if sys.platform == "linux":  # whoever loses its parent becomes a child of this process
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    # What Python's own pools leave (a resource tracker) ends by itself, a moment after its parent.
    _, left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=ENDS_S)
    for each in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    assert not left, f"still runs at the end of the page: {left}"


@cache
def own_network() -> tuple[str, ...]:
    """What gives a process a network of its own, in which typed ports are free; () for nothing."""
    for command in (("unshare", "-n"), ("unshare", "-rn")):
        if shutil.which("unshare") and not subprocess.run([*command, "true"]).returncode:
            return command
    return ()


def follow(page: Path, folder: Path, files: Path | None = None) -> None:
    """Type all that a page shows, in a clone or in a folder with these files."""
    folder.mkdir(parents=True)
    for each in [ROOT / name for name in IN_A_CLONE] if files is None else files.iterdir():
        (folder / each.name).symlink_to(each)
    text = page.read_text(encoding="utf-8")
    for block in FILE.finditer(text):
        (folder / block["name"]).write_text(block["text"])
    reader = Reader(folder)
    try:
        for line in lines(text):
            began = CLOCK.monotonic()
            reader.type(line)
            print(f"{CLOCK.monotonic() - began:6.1f} s  {line.typed}", flush=True)
    finally:
        reader.close()


if __name__ == "__main__":
    if "--own-network" in sys.argv:
        use_own_network()
    with_files = Path(sys.argv[sys.argv.index("--files") + 1]) if "--files" in sys.argv else None
    with nothing_left():
        follow(Path(sys.argv[1]), Path(sys.argv[2]), with_files)
