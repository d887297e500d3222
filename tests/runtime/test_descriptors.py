"""Files can be opened when connections have taken every descriptor."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pocketmq.runtime.files import descriptors
from pocketmq.runtime.files.descriptors import DescriptorReserve


@contextmanager
def none_left() -> Iterator[None]:
    """This process has taken all descriptors that it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/dev/fd"))) + 8, hard))
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_reserve_opens_files_when_no_descriptor_is_left(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    reserve = DescriptorReserve(3)
    os.close(reserve.open(str(tmp_path / "a"), os.O_RDONLY))
    held: list[int] = []
    with none_left():
        held += [reserve.open(str(tmp_path / "a"), os.O_RDONLY) for _ in range(3)]
        with pytest.raises(OSError, match="Too many open files"):
            reserve.open(str(tmp_path / "a"), os.O_RDONLY)
        with open(tmp_path / "a", "rb", opener=_after_close(held, reserve)) as file:
            assert file.read() == b"content"
    for descriptor in held:
        os.close(descriptor)
    os.close(reserve.open(str(tmp_path / "a"), os.O_RDONLY))
    assert len(reserve._spare) == 3, "taken back once there are some"
    reserve.close()
    assert reserve._spare == []


def _after_close(held: list[int], reserve: DescriptorReserve):  # type: ignore[no-untyped-def]
    os.close(held.pop())
    return reserve.open


def test_other_errors_are_told_as_they_are(tmp_path: Path) -> None:
    reserve = DescriptorReserve(1)
    with pytest.raises(FileNotFoundError):
        reserve.open(str(tmp_path / "missing"), os.O_RDONLY)
    reserve.close()


def test_the_soft_limit_is_raised_and_connections_leave_some_free() -> None:
    code = (
        "import resource; from pocketmq.runtime.files import descriptors as d;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 700));"
        "print(d.most_connections(), d.raise_soft_limit(), d.most_connections());"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); print(d.most_connections())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kept = descriptors.KEPT_FOR_FILES
    assert told.stdout.split() == [str(256 - kept), "700", str(700 - kept), "16"]
