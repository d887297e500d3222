"""S3 as moto imitates it, on loopback; and a store's files put there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

BUCKET = "pocketmq"


class ObjectStore:
    """A running server with an empty bucket."""

    def __init__(self, endpoint: str) -> None:
        self.address = endpoint.removeprefix("http://")
        self.options = {"key": "test", "secret": "test", "endpoint_url": endpoint}

    @property
    def storage_options(self) -> str:
        """What option `storageOptions` takes."""
        return json.dumps(self.options)

    @property
    def files(self) -> Any:
        import s3fs

        return s3fs.S3FileSystem(**self.options, use_listings_cache=False)

    def put(self, source: Path, name: str) -> str:
        """Copy a folder or a file; its address."""
        address = f"s3://{BUCKET}/{name}"
        self.files.put(str(source), address, recursive=source.is_dir())
        return address


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A server for the length of a block; skips where moto or s3fs is not installed."""
    server = pytest.importorskip(
        "moto.server", reason="needs moto[server]: pip install -e '.[dev]'"
    )
    pytest.importorskip("s3fs", reason="needs s3fs: pip install -e '.[remote]'")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    try:
        host, port = running.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        # What servers of this process had before is kept in it, beyond their end.
        urlopen(Request(f"{endpoint}/moto-api/reset", method="POST")).close()
        store = ObjectStore(endpoint)
        store.files.mkdir(BUCKET)
        yield store
    finally:
        running.stop()
