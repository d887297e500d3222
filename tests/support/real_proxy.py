"""RocketMQ's own gRPC proxy 5.3.3, as a child process; Maven Central has it."""

from __future__ import annotations

import fcntl
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from support.java import JavaError
from support.real_rocketmq import POLL_S, JavaServer, free_port

RECIPE: Final = Path(__file__).resolve().parents[2] / "recipes" / "rocketmq-proxy"
FETCH_LIMIT_S: Final = 900.0  # 88 MB
START_LIMIT_S: Final = 240.0
STARTS: Final = 4


def proxy_libraries() -> Path:
    """The folder of its jars; the first call on a machine fetches them."""
    home = Path(sys.prefix) / "rocketmq-proxy-5.3.3"
    home.mkdir(exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (home / ".installed").exists():
            shutil.copy(RECIPE / "pom.xml", home)
            subprocess.run(
                ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
                cwd=home,
                check=True,
                timeout=FETCH_LIMIT_S,
            )
            (home / ".installed").touch()
    return home / "lib"


@contextmanager
def real_proxy(
    folder: Path,
    nameserver: str,
    *,
    settings: Mapping[str, object] | None = None,
    flags: tuple[str, ...] = ("-Xmx512m",),
) -> Iterator[tuple[int, JavaServer]]:
    """The port that SDKs use, and its process, once it listens.

    Args:
        folder: For its settings and logs.
        nameserver: Of its cluster, which has to answer at its start.
        settings: Beside those that a test always needs.
        flags: Of Java.
    """
    home = folder / "proxy"
    home.mkdir(parents=True)
    port = free_port()
    all_settings = {
        "rocketMQClusterName": "DefaultCluster",
        "namesrvAddr": nameserver,
        "localServeAddr": "127.0.0.1",
        "grpcServerPort": port,
        "remotingListenPort": free_port(),
        **(settings or {}),
    }
    (home / "rmq-proxy.json").write_text(json.dumps(all_settings))
    classes = f"{proxy_libraries()}/*"
    command = [
        *("java", *flags, f"-Duser.home={home}", "-cp", classes),
        *("org.apache.rocketmq.proxy.ProxyStartup", "-pm", "cluster"),
        *("-pc", str(home / "rmq-proxy.json")),
    ]
    env = {"RMQ_PROXY_HOME": str(home), "PATH": "/usr/bin:/bin"}
    server = _listening(lambda: JavaServer("proxy", command, folder / "proxy.out", env), port)
    try:
        yield port, server
    finally:
        server.kill()


def _listening(start: Callable[[], JavaServer], port: int) -> JavaServer:
    """Start it until it listens.

    It ends by itself if a broker takes more than 3 s to make a topic, as in a busy machine.
    """
    for _ in range(STARTS):
        server = start()
        for _ in range(int(START_LIMIT_S / POLL_S)):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), POLL_S):
                return server
            if not server.running_for(POLL_S):
                break
        else:
            server.kill()
    raise JavaError(f"RocketMQ's proxy did not start {STARTS} times:\n{server.story()}")
