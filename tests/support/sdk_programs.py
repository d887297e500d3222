"""RocketMQ's official Go, Node, Java and Rust SDKs, as they are published, for programs of tests.

Each is fetched once for a machine, below the environment that the tests run in.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

NODE_VERSION: Final = "1.0.8"
JAVA_VERSION: Final = "5.2.0"
GO_VERSION: Final = "5.1.4"
RUST_VERSION: Final = "5.0.0"
LIMIT_S: Final = 900.0
"""Real seconds for a program; to build one in a busy machine takes minutes."""

_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_GO_MOD: Final = f"""module pocketmq.test/sdk

go 1.25

require github.com/apache/rocketmq-clients/golang/v5 v{GO_VERSION}
"""
_CARGO: Final = f"""[package]
name = "sdk"
version = "0.1.0"
edition = "2021"

[dependencies]
rocketmq = "={RUST_VERSION}"
tokio = {{ version = "1", features = ["full"] }}
time = {{ version = "0.3", features = ["local-offset"] }}
"""


def run(*words: str | Path, folder: Path | None = None, **env: str) -> str:
    """What a program prints; it must end with 0."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def node_command(program: Path) -> list[str | Path]:
    """Runs a program, which is copied to where Node finds the SDK."""
    with _kept(f"rocketmq-node-{NODE_VERSION}") as (home, is_new):
        if is_new:
            wanted = f"rocketmq-client-nodejs@{NODE_VERSION}"
            run("npm", "install", "--no-audit", "--no-fund", "--prefix", home, wanted)
        copy = shutil.copy(program, home / f"{os.getpid()}-{program.name}")
    return ["node", copy]


def java_command(program: Path, home: Path) -> list[str | Path]:
    """Runs a source file with the SDK, which logs below `home`."""
    with _kept(f"rocketmq-java-{JAVA_VERSION}") as (kept, is_new):
        if is_new:
            artifact = f"org.apache.rocketmq:rocketmq-client-java:{JAVA_VERSION}"
            run("mvn", "-B", "-q", _COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={kept}")
    jar = kept / f"rocketmq-client-java-{JAVA_VERSION}.jar"
    return ["java", "-Xmx512m", f"-Duser.home={home}", "-cp", jar, program]


def go_command(program: Path, folder: Path) -> list[str | Path]:
    """Builds a program in a folder, and runs it."""
    project = folder / "go"
    project.mkdir()
    (project / "go.mod").write_text(_GO_MOD)
    shutil.copy(program, project / "main.go")
    # Without cgo: compiling for it takes longer than the test. It writes its go.sum itself.
    run("go", "build", "-mod=mod", "-o", "sdk", ".", folder=project, CGO_ENABLED="0")
    return [project / "sdk"]


def rust_command(program: Path) -> list[str | Path]:
    """Builds a program where the SDK's crates were built before, and runs it."""
    with _kept(f"rocketmq-rust-{RUST_VERSION}") as (home, is_new):
        (home / "src").mkdir(exist_ok=True)
        if is_new:
            (home / "Cargo.toml").write_text(_CARGO)
        shutil.copy(program, home / "src" / "main.rs")
        run("cargo", "build", "--quiet", folder=home)
        copy = shutil.copy(home / "target" / "debug" / "sdk", home / f"sdk-{os.getpid()}")
    return [copy]


@contextmanager
def _kept(name: str) -> Iterator[tuple[Path, bool]]:
    """A folder of an SDK, and whether it has to be filled: nobody else uses it meanwhile."""
    home = Path(sys.prefix) / name
    home.mkdir(exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        is_new = not (home / ".installed").exists()
        yield home, is_new
        (home / ".installed").touch()
