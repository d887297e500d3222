"""The files of the page, and a page with a recording inside that needs no server."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

from pocketmq.runtime.errors import CallerError

MAX_EXPORT_BYTES: Final = 50 * 1024 * 1024
"""Maximum bytes of a recording in a page; browsers open more only slowly."""

PREFIX: Final = "watch/"
"""Of the names by which modules import each other; the page's import map says where they are."""

_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}


class TooLargeError(CallerError):
    """A recording is too large for one page."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"the recording has {size / 1e6:.0f} MB, and a page may have "
            f"{MAX_EXPORT_BYTES / 1e6:.0f} MB; select a part with --begin and --end (seconds, as "
            "in the page's #t=), or show the whole with `pocketmq watch --from FILE`"
        )


@cache
def page_files() -> Mapping[str, bytes]:
    """Name (`views/cluster.js`) -> content, of all files of the page."""
    found: dict[str, bytes] = {}

    def collect(folder: Traversable, before: str) -> None:
        # Sorted, so that the same files make the same page.
        for each in sorted(folder.iterdir(), key=lambda each: each.name):
            if each.is_dir():
                collect(each, f"{before}{each.name}/")
            elif each.name.endswith(tuple(_TYPES)):
                found[before + each.name] = each.read_bytes()

    collect(files("pocketmq.cluster.watch_page") / "page", "")
    return found


def media_type(name: str) -> str:
    """The media type of a file of the page."""
    return f"{_TYPES['.' + name.rpartition('.')[2]]}; charset=utf-8"


@cache
def security_policy() -> str:
    """The Content-Security-Policy of the served page: nothing from elsewhere, no inline script but
    the page's own."""
    inline = re.findall(r"<script type=[^>]*>(.*?)</script>", _index(), re.DOTALL)
    # Allowed by the hash of its text, since an import map must be inline.
    hashes = " ".join(_hash_source(each) for each in inline)
    return (
        f"default-src 'none'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


class Beside(msgspec.Struct):
    """A second recording in a page, of the same seed without a broken line."""

    recording: bytes
    file: str
    """Of the line."""
    old: str
    new: str
    """The broken line, in the first recording."""


def exported_page(recording: bytes, name: str, beside: Beside | None = None) -> str:
    """One HTML file with the page and a recording inside; it opens from a disk, without network.

    Args:
        recording: The content of a recording; lines that cannot be read are the page's matter.
        name: What to call it.
        beside: Is shown beside it, at the same moment.

    Raises:
        TooLargeError: It is larger than `MAX_EXPORT_BYTES`.
    """
    size = len(recording) + (0 if beside is None else len(beside.recording))
    if size > MAX_EXPORT_BYTES:
        raise TooLargeError(size)
    modules = {
        # Modules are embedded, since a page opened from the disk may load no other file.
        PREFIX + file: f"data:text/javascript;base64,{base64.b64encode(content).decode()}"
        for file, content in page_files().items()
        if file.endswith(".js")
    }
    policy = (
        "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    source: dict[str, object] = {"name": name}
    recordings = {"recording": recording}
    if beside is not None:
        source["line"] = {"file": beside.file, "old": beside.old, "new": beside.new}
        recordings["recording-beside"] = beside.recording
    data = f'<script type="application/json" id="source">{_inert(json.dumps(source))}</script>\n'
    for id_, content in recordings.items():
        # Bytes that are no UTF-8 become replacement characters.
        text = _inert(content.decode("utf-8", "replace"))
        data += f'<script type="text/plain" id="{id_}">{text}</script>\n'
    style = page_files()["style.css"].decode()
    page = _index()
    for before, after in (
        ("<title>", f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>'),
        ('<link rel="stylesheet" href="/watch/style.css">', f"<style>\n{style}</style>"),
        ('{"imports": {"watch/": "/watch/"}}', json.dumps({"imports": modules})),
        ('<div id="page"></div>', f'<div id="page"></div>\n{data}'),
        ("PocketMQ: watch", f"PocketMQ: {html.escape(name)}"),
    ):
        # The page's template has changed but this list has not: no page is better than one without
        # data.
        assert before in page, before
        page = page.replace(before, after, 1)
    return page


def _index() -> str:
    return page_files()["index.html"].decode()


def _inert(text: str) -> str:
    r"""JSON without any `<`, so that no key in it can end its element: `\u003c` means the same.

    Carriage returns are what HTML would change in it.
    """
    return text.replace("<", "\\u003c").replace("\r", "")


def _hash_source(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
