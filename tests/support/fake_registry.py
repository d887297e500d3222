"""A registry of schemas as Confluent's clients know it, and bodies that name one of its schemas."""

from __future__ import annotations

import json
import struct
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeRegistry:
    """A registry with Confluent's REST interface on loopback."""

    def __init__(self) -> None:
        self.subjects: dict[str, list[dict[str, Any]]] = {}
        self.level = ""
        """How it compares versions; empty: it does not, as an older one without the endpoint."""
        self.opinions: dict[tuple[str, int], list[str]] = {}
        """(text that is sent, version) -> what does not fit; all else fits."""
        self.asked: list[str] = []
        """Method and path of every request."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.asked.append(f"GET {self.path}")
                self._reply(fake.answer(self.path.partition("?")[0].strip("/").split("/")))

            def do_POST(self) -> None:
                fake.asked.append(f"POST {self.path}")
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._reply(fake.compare(self.path.partition("?")[0].strip("/").split("/"), said))

            def _reply(self, found: Any) -> None:
                body = json.dumps(found if found is not None else {"error_code": 404}).encode()
                self.send_response(200 if found is not None else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def compare(self, path: list[str], said: dict[str, Any]) -> Any:
        """Of `/compatibility/subjects/<subject>/versions/<version>`: kept is nothing."""
        if path[:2] != ["compatibility", "subjects"]:
            return None
        messages = self.opinions.get((said["schema"], int(path[4])), [])
        return {"is_compatible": not messages, "messages": messages}

    def answer(self, path: list[str]) -> Any:
        if path[0] == "config":
            return {"compatibilityLevel": self.level} if self.level else None
        if path[:2] == ["schemas", "ids"]:
            every = [each for listed in self.subjects.values() for each in listed]
            return next((each for each in every if each["id"] == int(path[2])), None)
        versions = self.subjects.get(urllib.parse.unquote(path[1]))
        if versions is None or len(path) == 3:
            return versions and [each["version"] for each in versions]
        return versions[-1 if path[3] == "latest" else int(path[3]) - 1]

    def add(self, subject: str, number: int, kind: str, text: str, **more: Any) -> None:
        listed = self.subjects.setdefault(subject, [])
        said = {"subject": subject, "id": number, "version": len(listed) + 1, "schema": text}
        said |= more
        listed.append(said if kind == "AVRO" else {**said, "schemaType": kind})

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def framed(number: int, body: bytes) -> bytes:
    """A body that names its schema."""
    return struct.pack(">BI", 0, number) + body
