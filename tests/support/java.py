"""Java programs of `tests/interop/java`: built once, run as child processes.

Maven resolves the class path (Maven Central), and a stamp over the sources lets later runs skip it.
Nothing is written outside `target/`: RocketMQ logs below `user.home`, which is set.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.class_archive import from_archive, jar_of, make_archive

PROJECT = Path(__file__).resolve().parents[1] / "interop" / "java"
TARGET = PROJECT / "target"
SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""These programs live for seconds: neither the second compiler nor threads that collect garbage
pay, and to verify the byte code of published classes takes a sixth of a start."""
BUILD_TIMEOUT_S = 900.0  # a first build downloads 90 MB


class JavaError(AssertionError):
    """A build or a Java program failed; the message carries what it printed."""


@dataclass(frozen=True, slots=True)
class JavaRun:
    """What a finished Java program left."""

    returncode: int
    stdout: str
    stderr: str

    def lines(self, word: str) -> list[list[str]]:
        """Words after `word` of each printed line that begins with it, in order."""
        split = (line.split() for line in self.stdout.splitlines())
        return [words[1:] for words in split if words[:1] == [word]]

    def counts(self, word: str) -> dict[str, int]:
        """Lines `word name number` as a table."""
        return {name: int(number) for name, number, *_ in self.lines(word)}

    def tally(self, word: str) -> dict[str, int]:
        """The last line `word n name n name n` as a table; the first number is under `word`."""
        lines = self.lines(word)
        if not lines:
            raise JavaError(f"no line {word!r} in:\n{self.stdout}\n{self.stderr}")
        numbers = [word, *lines[-1]]
        return {name: int(n) for name, n in zip(numbers[::2], numbers[1::2], strict=True)}


@functools.cache
def java_ready() -> str | None:
    """Why Java tests cannot run here, or None when they can."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (make setup brings Java 17 and Maven through apt)"
    return None


@functools.cache
def build(*, server: bool = False) -> Path:
    """Compile the programs and return a file of arguments for `java`: their class path.

    Args:
        server: with RocketMQ's own nameserver and broker on it.

    Raises:
        JavaError: Maven failed; its output is in the message.
    """
    name = "server" if server else "client"
    path_file, arguments = TARGET / f"classpath.{name}", TARGET / f"arguments.{name}"
    stamp = f"# {_source_stamp()}"
    with _build_lock():
        if not _is_current(arguments, stamp):
            goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={path_file}"]
            _run_maven(["mvn", "-B", "-q", *(["-Pserver"] if server else []), *goals])
            jars = path_file.read_text().strip().split(os.pathsep)
            programs = jar_of(TARGET / "classes", TARGET / f"programs.{name}.jar")
            path = os.pathsep.join([str(programs), *jars])
            unfinished = TARGET / f"unfinished.{name}"
            unfinished.write_text(f'{stamp}\n-cp\n"{path}"\n')
            make_archive(_archive(arguments), unfinished, SHORT_LIVED)
            unfinished.rename(arguments)
    return arguments


@functools.cache
def build_release(release: str) -> Path:
    """The class path of another release's servers, as a file of arguments for `java`.

    Our programs are compiled against one release, so only those may run here that name none of its
    classes, such as `Guarded`.

    Raises:
        JavaError: Maven failed; its output is in the message.
    """
    own = build(server=True)
    programs = own.read_text().splitlines()[2].strip('"').split(os.pathsep)[0]
    path_file, arguments = TARGET / f"classpath.{release}", TARGET / f"arguments.{release}"
    stamp = f"# {_source_stamp()}"
    with _build_lock():
        if not _is_current(arguments, stamp):
            command = [
                "mvn", "-B", "-q", "-Pserver", f"-Drocketmq.version={release}",
                "dependency:build-classpath", f"-Dmdep.outputFile={path_file}",
            ]  # fmt: skip
            _run_maven(command)
            jars = path_file.read_text().strip()
            unfinished = TARGET / f"unfinished.{release}"
            unfinished.write_text(f'{stamp}\n-cp\n"{programs}{os.pathsep}{jars}"\n')
            unfinished.rename(arguments)
    return arguments


def _run_maven(command: list[str]) -> None:
    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
    )
    if done.returncode != 0:
        raise JavaError(f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}")


def java_command(
    main: str,
    *args: object,
    server: bool = False,
    release: str = "",
    home: Path | None = None,
    properties: Mapping[str, str] | None = None,
    jvm: tuple[str, ...] = ("-Xmx512m",),
) -> list[str]:
    """The command line of a main class; a bare name is taken from `pocketmq.interop`.

    The program ends when its standard input does: keep a pipe to it open. With `release` it is one
    of that release's servers, such as `5.5.1`.
    """
    settings = {
        "user.home": str(home or TARGET / "home"),
        "rocketmq.log.level": "warn",
        "rmq.logback.configurationFile": str(PROJECT / "logback.xml"),
        **(properties or {}),
    }
    arguments = build_release(release) if release else build(server=server)
    return [
        "java",
        *SHORT_LIVED,
        *([] if release else from_archive(_archive(arguments))),
        *jvm,
        *(f"-D{name}={value}" for name, value in settings.items()),
        f"@{arguments}",
        "pocketmq.interop.Guarded",
        main if "." in main else f"pocketmq.interop.{main}",
        *map(str, args),
    ]


def run_java(
    main: str,
    *args: object,
    timeout_s: float = 300.0,
    check: bool = True,
    server: bool = False,
    properties: Mapping[str, str] | None = None,
) -> JavaRun:
    """Run a main class to its end.

    Args:
        main: name within `pocketmq.interop`, or a full class name.
        args: positional arguments and `--option value` pairs.
        timeout_s: real seconds after which the program is killed.
        check: raise unless the exit status is 0.
        server: on the class path with RocketMQ's servers.
        properties: system properties, such as `{"rocketmq.serialize.type": "ROCKETMQ"}`.

    Raises:
        JavaError: exit status not 0 (with `check`), or killed after `timeout_s`.
    """
    command = java_command(main, *args, server=server, properties=properties)
    label = f"{main} {' '.join(map(str, args))}"
    guard, ours = os.pipe()  # its end is ours: if this process dies, so does the program
    try:
        done = subprocess.run(
            command, stdin=guard, capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as exc:
        raise JavaError(f"{label}: no end after {timeout_s} s\n{_ends(exc)}") from None
    finally:
        os.close(guard)
        os.close(ours)
    if check and done.returncode != 0:
        raise JavaError(f"{label}: exit status {done.returncode}\n{_ends(done)}")
    return JavaRun(done.returncode, done.stdout, done.stderr)


def _ends(done: subprocess.CompletedProcess[str] | subprocess.TimeoutExpired) -> str:
    """The last that a program printed; a killed one leaves bytes."""
    parts = (done.stdout or "", done.stderr or "")
    texts = (part.decode() if isinstance(part, bytes) else part for part in parts)
    return "\n".join(text[-3000:] for text in texts)


def _source_stamp() -> str:
    digest = hashlib.sha256()
    for path in [PROJECT / "pom.xml", *sorted(PROJECT.glob("src/**/*.java"))]:
        digest.update(f"{path.relative_to(PROJECT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _archive(arguments: Path) -> Path:
    return arguments.with_suffix(f"{arguments.suffix}.jsa")


def _is_current(arguments: Path, stamp: str) -> bool:
    if not arguments.exists():
        return False
    first, _, path = arguments.read_text().splitlines()
    return first == stamp and all(Path(jar).exists() for jar in path.strip('"').split(os.pathsep))


@contextmanager
def _build_lock() -> Iterator[None]:
    """One Maven at a time, also across the processes of pytest-xdist."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with (TARGET / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
