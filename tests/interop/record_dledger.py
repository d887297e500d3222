"""Recipe of `tests/golden/store/dledger.tar.xz`: a real broker writes a log through DLedger.

    unshare -n sh -c 'ip link set lo up; python tests/interop/record_dledger.py [FOLDER]'

RocketMQ's DLedger server listens on every address, hence the network of its own. The broker first
writes a plain log, then goes on as a DLedger group of one (D-235). `dledger-n0/index` is left out:
it is 160 MiB of nearly nothing that a broker makes anew, and readers do not need it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from interop.record_store import pack
from support.golden import GOLDEN, STORE_SIZES
from support.java import run_java
from support.real_rocketmq import RealRocketMQ, free_port

TOPICS = ("GoldenBefore", "GoldenPlain", "GoldenLarge", "GoldenKinds")


def main() -> None:
    """Write the archive into the folder of the command line, or the golden one."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "store"
    with tempfile.TemporaryDirectory() as work:
        settings: dict[str, object] = {**STORE_SIZES, "enableCompaction": "false"}
        cluster = RealRocketMQ(Path(work) / "store", Path(work) / "rocketmq", settings=settings)
        try:
            cluster.start_namesrv()
            cluster.start_broker()
            address = cluster.namesrv_addr
            run_java("SendMessages", address, "GoldenBefore", 100, "--size", 60)
            cluster.stop_broker()
            cluster.settings |= {
                "enableDLegerCommitLog": "true",
                "dLegerGroup": cluster.broker_name,
                "dLegerPeers": f"n0-127.0.0.1:{free_port()}",
                "dLegerSelfId": "n0",
            }
            cluster.start_broker()
            run_java("SendMessages", address, "GoldenPlain", 500, "--size", 60, "--threads", 2)
            run_java("SendMessages", address, "GoldenLarge", 12, "--size", 6000)
            run_java("SendMessages", address, "GoldenKinds", 8, "--first", 4, "--kind", "rich")
            expected = run_java("DumpTopics", address, ",".join(TOPICS)).stdout
            cluster.stop_broker()
            shutil.rmtree(cluster.store_dir / "dledger-n0" / "index")
            pack("dledger", cluster, expected, folder)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
