"""Answers the few requests of Docker's API that Testcontainers sends, without a container engine.

A "container" is the image's entry point in a process (`support.dockerfile`). Nothing isolates it:
a port that would be mapped is chosen freely, and the process is told to listen on that one.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pocketmq.runtime.ports import free_ports
from support.dockerfile import Image

LISTENS_BY = {
    "9876/tcp": "POCKETMQ_CLUSTER_NAMESERVER_PORT",
    "9870/tcp": "POCKETMQ_CLUSTER_CONTROL_PORT",
}
"""Ports that may be mapped to another number, and the variable that has each."""
ID = "c1" * 32
"""The container's, as long as Docker's."""
STOP_LIMIT_S = 200


@dataclass
class _Container:
    """One that was created, and perhaps started."""

    image: Image
    asked: dict[str, Any]
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    ports: dict[str, int] = field(default_factory=dict)
    has_been_healthy: bool = False

    def start(self) -> None:
        given = dict(each.split("=", 1) for each in self.asked["Env"])
        for port, bindings in self.asked["HostConfig"]["PortBindings"].items():
            (binding,) = bindings
            if binding["HostPort"] not in ("", "0"):
                assert binding["HostPort"] == port.removesuffix("/tcp"), "the broker's own number"
                self.ports[port] = int(binding["HostPort"])
            else:
                self.ports[port] = free_ports("127.0.0.1", 1)[0]
                given[LISTENS_BY[port]] = str(self.ports[port])
        folder = {"POCKETMQ_CLUSTER_DATA": str(self.folder)}
        self.process = subprocess.Popen(
            [str(self.image.bin / self.image.entrypoint[0]), *self.image.entrypoint[1:],
             *(self.asked["Cmd"] or ())],
            env=self.image.environment(**given, **folder), cwd=self.folder, start_new_session=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def is_healthy(self) -> bool:
        """Checked until it is: an engine, too, checks from time to time and not at each request."""
        if not self.has_been_healthy:
            self.has_been_healthy = self._passes_its_check()
        return self.has_been_healthy

    def _passes_its_check(self) -> bool:
        words = [str(self.image.bin / self.image.healthcheck[0]), *self.image.healthcheck[1:-1]]
        check = subprocess.run(
            [*words, str(self.folder)], env=self.image.environment(), capture_output=True
        )
        return check.returncode == 0

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(getattr(signal, self.image.stopsignal))
            self.process.wait(STOP_LIMIT_S)
            self.process = None

    def seen(self) -> dict[str, Any]:
        """What `docker inspect` shows."""
        runs = self.process is not None and self.process.poll() is None
        health = "healthy" if runs and self.is_healthy() else "starting"
        return {
            "Id": ID,
            "Name": "/pocketmq",
            "Config": {"Image": "pocketmq", "Labels": {}},
            "HostConfig": {"NetworkMode": "default"},
            "State": {
                "Status": "running" if runs else "exited",
                "Running": runs,
                "Health": {"Status": health},
            },
            "NetworkSettings": {
                "Ports": {
                    port: [{"HostIp": "0.0.0.0", "HostPort": str(number)}]
                    for port, number in self.ports.items()
                }
            },
        }


class Daemon(ThreadingHTTPServer):
    """Knows the image `pocketmq`, and one container of it at a time."""

    def __init__(self, image: Image, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.image = image
        self.folder = folder
        self.container: _Container | None = None

    @property
    def docker_host(self) -> str:
        """For the environment's DOCKER_HOST."""
        return f"tcp://127.0.0.1:{self.server_address[1]}"

    def answer(self, asked: str, body: Any) -> Any:
        """What a request gets; None: nothing has to be said."""
        path = re.sub(r"^(\w+) /v[\d.]+", r"\1 ", asked).partition("?")[0]
        if path in ("GET /_ping", "HEAD /_ping"):
            return "OK"
        if path == "GET /version":
            return {"ApiVersion": "1.44", "Version": "28.0", "Os": "linux", "Arch": "amd64"}
        if path == "GET /info":
            return {
                "ID": "stand-in",
                "ServerVersion": "28.0",
                "OSType": "linux",
                "MemTotal": 8 << 30,
            }
        if path == "GET /networks":  # with filters: where Testcontainers itself runs in a container
            return [] if "?" in asked else [{"Name": "bridge", "Id": "n1", "Driver": "bridge"}]
        if path == "GET /images/json":
            return [{"Id": "pocketmq", "RepoTags": ["pocketmq:latest"]}]
        if re.fullmatch("GET /images/pocketmq(:latest)?/json", path):
            return {"Id": "pocketmq", "Config": {}}
        if path == "GET /containers/json":
            return [] if self.container is None else [{"Id": ID}]
        if path == "POST /containers/create":
            assert self.container is None
            self.container = _Container(self.image, body, self.folder)
            return {"Id": ID, "Warnings": []}
        if path in (f"POST /{each}/prune" for each in ("networks", "volumes", "images")):
            return {}
        assert self.container is not None, asked
        if path == f"GET /containers/{ID}/json":
            return self.container.seen()
        if path == f"POST /containers/{ID}/start":
            return self.container.start()
        if path in (f"POST /containers/{ID}/stop", f"POST /containers/{ID}/kill"):
            return self.container.stop()
        assert path == f"DELETE /containers/{ID}", asked
        self.container.stop()
        self.container = None
        return None


class _Handler(BaseHTTPRequestHandler):
    server: Daemon

    def _answer(self) -> None:
        body = json.loads(self._body() or "null")
        found = self.server.answer(f"{self.command} {self.path}", body)
        data = b"" if found is None else json.dumps(found).encode()
        self.send_response(201 if self.path.partition("?")[0].endswith("/create") else
                           200 if data else 204)  # fmt: skip
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while length := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(length + 2)[:-2])
        self.rfile.readline()
        return b"".join(parts)

    do_GET = do_HEAD = do_POST = do_DELETE = _answer

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def container_daemon(image: Image, folder: Path) -> Iterator[Daemon]:
    """A daemon that runs during the block."""
    daemon = Daemon(image, folder)
    thread = threading.Thread(target=daemon.serve_forever, name="container daemon")
    thread.start()
    try:
        yield daemon
    finally:
        daemon.shutdown()
        thread.join()
        daemon.server_close()
        if daemon.container is not None:
            daemon.container.stop()
