"""Recipe of `tests/golden/store`: have a real RocketMQ broker write a store with small files.

    python tests/interop/record_store.py [FOLDER]

`clean.tar.xz` was closed by a clean stop. `killed.tar.xz` went on from there and ended by SIGKILL:
its `abort` file is there, its checkpoint is old. Each archive holds `<name>/store`, the store root,
and `<name>/expected.jsonl`: every message as RocketMQ's own client read it just before.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.golden import GOLDEN, STORE_SIZES
from support.java import run_java
from support.real_rocketmq import RealRocketMQ

SETTINGS = {
    **STORE_SIZES,
    "enableCompaction": "false",
    # Half messages stay as they are while the recipe runs.
    "transactionTimeOut": 600_000,
    "transactionCheckInterval": 600_000,
}
LONG_GROUP = "golden-" + "g" * 140
"""Its retry topic has more than 127 bytes: records with the V2 magic."""
TOPICS = (
    "GoldenPlain", "GoldenBatch", "GoldenLarge", "GoldenKinds", "GoldenDelay",
    "GoldenTransactions",
    "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "%RETRY%golden-group", f"%RETRY%{LONG_GROUP}",
)  # fmt: skip


def write(namesrv: str) -> None:
    """One of everything that a store can hold."""
    run_java("SendMessages", namesrv, "GoldenPlain", 900, "--size", 60, "--threads", 2)
    run_java("SendMessages", namesrv, "GoldenBatch", 160, "--batch", 16, "--threads", 2)
    run_java("SendMessages", namesrv, "GoldenLarge", 12, "--size", 6000)  # compressed
    run_java("SendMessages", namesrv, "GoldenKinds", 4, "--kind", "bare")
    run_java("SendMessages", namesrv, "GoldenKinds", 8, "--first", 4, "--kind", "rich")
    run_java("SendMessages", namesrv, "GoldenDelay", 6, "--delay", 1)
    run_java("SendMessages", namesrv, "GoldenDelay", 6, "--first", 6, "--delay", 18)
    run_java("SendTransactions", namesrv, "GoldenTransactions", 9)


def consume(namesrv: str) -> None:
    """Committed offsets, and messages that were sent back."""
    everything = ("*", 160, 40)
    run_java(
        "ConsumeMessages", namesrv, "golden-group", "GoldenBatch", *everything, "--fail", "TagB"
    )
    run_java("ConsumeMessages", namesrv, LONG_GROUP, "GoldenLarge", "*", 12, 40, "--fail", "TagA")
    run_java("ConsumeMessages", namesrv, "golden-group", "GoldenDelay", "*", 6, 40)
    run_java("ConsumeMessages", namesrv, "golden-tags", "GoldenPlain", "TagA || TagC", 600, 40)


def pack(name: str, cluster: RealRocketMQ, expected: str, folder: Path) -> None:
    """Save the store of a stopped broker and what it holds."""
    root = cluster.work_dir / name
    shutil.copytree(cluster.store_dir, root / "store")
    (root / "expected.jsonl").write_text(expected)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.tar.xz"
    with tarfile.open(path, "w:xz", preset=9) as archive:
        archive.add(root, name, filter=_anonymous)
    files = [file for file in (root / "store").rglob("*") if file.is_file()]
    print(f"{path.name}: {path.stat().st_size} bytes for {len(files)} files")


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def main() -> None:
    """Write both archives into the folder of the command line, or the golden one."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "store"
    with tempfile.TemporaryDirectory() as work:
        cluster = RealRocketMQ(Path(work) / "store", Path(work) / "rocketmq", settings=SETTINGS)
        try:
            cluster.start_namesrv()
            cluster.start_broker()
            write(cluster.namesrv_addr)
            consume(cluster.namesrv_addr)
            expected = run_java("DumpTopics", cluster.namesrv_addr, ",".join(TOPICS)).stdout
            cluster.stop_broker()
            pack("clean", cluster, expected, folder)
            cluster.start_broker()
            run_java("SendMessages", cluster.namesrv_addr, "GoldenPlain", 300, "--first", 900)
            expected = run_java("DumpTopics", cluster.namesrv_addr, ",".join(TOPICS)).stdout
            cluster.kill_broker()
            pack("killed", cluster, expected, folder)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
