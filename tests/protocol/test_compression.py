"""Compressed bodies, and how far a stranger's may grow (E-42, P-44, fault 30)."""

import contextlib
import importlib
import importlib.util
import subprocess
import sys
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol import compression
from pocketmq.protocol.compression import CompressionKind, compress, decompress, kind_of
from pocketmq.protocol.errors import BodyError, BodyTooLargeError, CompressionUnavailableError
from support.strategies import mutated

MODULES = {CompressionKind.LZ4: "lz4", CompressionKind.ZSTD: "zstandard"}
HERE = [
    kind
    for kind in CompressionKind
    if kind not in MODULES or importlib.util.find_spec(MODULES[kind]) is not None
]
"""Kinds whose library is installed; a light install has zlib only."""

MIB = 1024 * 1024


@given(st.sampled_from(HERE), st.binary(max_size=5000))
def test_a_body_comes_back(kind, body):
    assert decompress(compress(body, kind), kind.sys_flag) == body
    assert decompress(memoryview(compress(body, kind)), kind.sys_flag) == body


def test_the_kind_stands_in_the_sys_flag():
    assert [kind.sys_flag for kind in CompressionKind] == [0x101, 0x201, 0x301]
    assert [kind_of(kind.sys_flag) for kind in CompressionKind] == list(CompressionKind)
    assert kind_of(1) is CompressionKind.ZLIB  # as 4.9 clients write it
    with pytest.raises(BodyError, match="type 7"):
        kind_of(0x701)


def test_zlib_bodies_are_what_java_inflates():  # P-44: zlib container, level 5
    assert zlib.decompress(compress(b"x" * 5000)) == b"x" * 5000
    assert compress(b"x" * 5000)[:1] == b"\x78"


@pytest.mark.parametrize("kind", HERE)
def test_the_limit_is_exact(kind):
    packed = compress(bytes(10_000), kind)
    assert len(decompress(packed, kind.sys_flag, 10_000)) == 10_000
    with pytest.raises(BodyTooLargeError) as caught:
        decompress(packed, kind.sys_flag, 9_999)
    assert (caught.value.compressed_bytes, caught.value.max_bytes) == (len(packed), 9_999)


@pytest.mark.parametrize("kind", HERE)
def test_no_more_is_inflated_than_may_be_kept(kind):
    packed = compress(bytes(64 * MIB), kind)
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLargeError):
            decompress(packed, kind.sys_flag, MIB)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", HERE)
def test_a_body_cut_short_is_told(kind):
    packed = compress(bytes(range(256)) * 4, kind)
    for cut in range(len(packed) - (4 if kind is CompressionKind.ZLIB else 1)):
        with pytest.raises(BodyError):
            decompress(packed[:cut], kind.sys_flag)


@pytest.mark.parametrize("kind", HERE)
def test_what_is_wrong_with_a_body_is_told(kind):
    packed = bytearray(compress(bytes(range(256)) * 4, kind))
    packed[4] ^= 0xFF
    with pytest.raises(BodyError, match=f"{kind.name.lower()} says"):
        decompress(bytes(packed), kind.sys_flag)


@pytest.mark.parametrize("kind", HERE)
def test_what_reaches_the_limit_before_its_end_is_too_large(kind):
    packed = compress(bytes(1024 * 1024), kind)
    with pytest.raises(BodyTooLargeError):  # a block of zstd ends where the limit is
        decompress(packed, kind.sys_flag, 128 * 1024 - 1)


@pytest.mark.skipif(CompressionKind.ZSTD not in HERE, reason="zstandard is not installed")
def test_a_zstd_frame_without_its_last_block_is_cut_short_however_large_it_is():
    zstandard = importlib.import_module("zstandard")
    stream = zstandard.ZstdCompressor().compressobj()
    first = stream.compress(bytes(1000)) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    last = stream.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH)
    sys_flag = CompressionKind.ZSTD.sys_flag
    assert decompress(first + last, sys_flag, 1000) == bytes(1000)
    with pytest.raises(BodyError, match="cut short"):
        decompress(first, sys_flag, 1000)
    with pytest.raises(BodyTooLargeError):
        decompress(first, sys_flag, 999)


def test_what_follows_the_stream_is_ignored():  # Java's Inflater
    assert decompress(compress(b"abc") + b"rest", 1) == b"abc"


@given(
    st.sampled_from(HERE).flatmap(
        lambda kind: st.tuples(
            st.just(kind),
            st.binary(max_size=100) | mutated(st.just(compress(b"flight " * 50, kind))),
        )
    )
)
def test_arbitrary_bytes_raise_only_body_errors(case):
    kind, data = case
    with contextlib.suppress(BodyError):
        assert len(decompress(data, kind.sys_flag, 1000)) <= 1000


BOMB = """
import resource, sys
from pocketmq.protocol.compression import CompressionKind, decompress
from pocketmq.protocol.errors import BodyTooLargeError
bomb, kind = sys.stdin.buffer.read(), CompressionKind[sys.argv[1]]
try:
    decompress(b"", kind.sys_flag)
except Exception:
    pass  # the library is loaded now
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(bomb, kind.sys_flag)
except BodyTooLargeError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", HERE)
def test_a_zip_bomb_costs_little_more_than_the_limit(kind):  # fault 30: 1 GiB in 1 MB
    if kind is CompressionKind.ZLIB:
        stream = zlib.compressobj(9)  # a full flush makes blocks that stand for themselves
        first, block = (
            stream.compress(bytes(MIB)) + stream.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
        )
        bomb = first + block * 1023
    else:
        bomb = compress(bytes(256 * MIB), kind)
    run = subprocess.run(
        [sys.executable, "-c", BOMB, kind.name], input=bomb, capture_output=True, check=True
    )
    grown_kib = int(run.stdout)
    if sys.platform == "darwin":
        grown_kib //= 1024
    assert grown_kib < (8 if kind is CompressionKind.ZLIB else 24) * 1024


@pytest.mark.parametrize("kind", list(MODULES))
def test_a_missing_library_is_named_with_the_way_to_get_it(kind, monkeypatch):
    def absent(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(compression, "import_module", absent)
    for act in (
        lambda: compress(b"x", kind),
        lambda: decompress(b"x", kind.sys_flag),
    ):
        with pytest.raises(CompressionUnavailableError, match=f"pip install {MODULES[kind]}"):
            act()
