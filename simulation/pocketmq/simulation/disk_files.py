"""Files of a simulated disk: what processes see, and what is on the medium."""

from __future__ import annotations

import random
from collections.abc import Iterator

PAGE = 4096
SPARSE = 16 * 1024**2
"""Files of this size and more are mostly holes: only pages that were reserved are copied."""

Content = bytes | bytearray
Image = bytes | dict[int, bytes]
"""What a sync writes: a file's content, or the pages of a sparse one."""


class MemoryFile:
    """A file's bytes, which mappings refer to; a resized file keeps its buffer if possible."""

    __slots__ = ("buffer", "durable", "modified_ms", "passed_over", "size")

    def __init__(self, size: int, modified_ms: int) -> None:
        self.buffer = bytearray(size)
        self.size = size
        self.modified_ms = modified_ms
        self.durable: Content = b""
        """Content as of the last sync."""
        self.passed_over: dict[int, bytes] = {}
        """Page -> content that a failed sync did not write although the system believes it did."""

    def image(self) -> Image:
        """What a sync that begins now writes."""
        return self.content

    def reached(self, content: Image) -> None:
        """A sync has written this content to the medium, except for skipped pages."""
        assert isinstance(content, bytes)
        if self.passed_over:
            image = bytearray(content)
            for page, lost in list(self.passed_over.items()):
                end = min(page + PAGE, len(content))
                if content[page:end] == lost:
                    image[page:end] = self.durable[page:end].ljust(end - page, b"\0")
                else:
                    del self.passed_over[page]
            content = bytes(image)
        self.durable = content

    def could_not_be_written(self, content: Image) -> None:
        """A sync of this content has failed."""
        assert isinstance(content, bytes)
        for page in changed_pages(self.durable, content):
            self.passed_over[page] = content[page : page + PAGE]

    def resize(self, size: int) -> None:
        if size < self.size:
            self.buffer[size : self.size] = bytes(self.size - size)
        elif size > len(self.buffer):
            longer = bytearray(size)
            longer[: self.size] = self.buffer[: self.size]
            self.buffer = longer
        self.size = size

    @property
    def content(self) -> bytes:
        return bytes(memoryview(self.buffer)[: self.size])


class SparseFile(MemoryFile):
    """A large file, whose pages a broker reserves before it writes there; all others are holes."""

    __slots__ = ("used",)

    def __init__(self, size: int, modified_ms: int) -> None:
        super().__init__(size, modified_ms)
        self.used: set[int] = set()
        """Pages that were reserved."""

    def reserve(self, start: int, length: int) -> None:
        """Reserve pages."""
        self.used.update(range(start // PAGE * PAGE, start + length, PAGE))

    def resize(self, size: int) -> None:
        raise NotImplementedError("a large file keeps its size")

    def image(self) -> Image:
        return {page: bytes(self.buffer[page : page + PAGE]) for page in sorted(self.used)}

    def reached(self, content: Image) -> None:
        assert isinstance(content, dict)
        durable = self.durable
        if not isinstance(durable, bytearray):
            durable = self.durable = bytearray(self.size)
        for page, image in content.items():
            if self.passed_over.get(page) != image:
                self.passed_over.pop(page, None)
                durable[page : page + PAGE] = image

    def could_not_be_written(self, content: Image) -> None:
        assert isinstance(content, dict)
        for page, image in content.items():
            if self.durable[page : page + PAGE] != image:
                self.passed_over[page] = image


def after_cut(file: MemoryFile, is_live: bool, share: float, chance: random.Random) -> MemoryFile:
    """A file after a power cut; a removed or replaced one has its last synced content."""
    durable, live = file.durable, file.content if is_live else file.durable
    size = len(live) if chance.random() < share else len(durable)
    image = bytearray(durable[:size].ljust(size, b"\0"))
    for page in changed_pages(durable, live):
        if page < size and chance.random() < share:
            end = min(page + PAGE, size)
            image[page:end] = live[page:end].ljust(end - page, b"\0")
    left: MemoryFile
    if isinstance(file, SparseFile):
        left = SparseFile(0, file.modified_ms)
        left.buffer, left.size, left.durable, left.used = image, size, image[:], file.used
    else:
        left = MemoryFile(0, file.modified_ms)
        left.buffer, left.size, left.durable = image, size, bytes(image)
    return left


def changed_pages(before: Content, after: Content) -> Iterator[int]:
    """Where the pages begin in which two contents differ."""
    for page in range(0, max(len(before), len(after)), PAGE):
        if before[page : page + PAGE] != after[page : page + PAGE]:
            yield page
