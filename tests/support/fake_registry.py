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
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = fake.answer(self.path.strip("/").split("/"))
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

    def answer(self, path: list[str]) -> Any:
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
