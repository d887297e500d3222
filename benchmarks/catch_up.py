"""How fast an empty slave gets its master's log, and how much memory that takes.

    .venv/bin/python benchmarks/catch_up.py                      ours beside plain copies
    .venv/bin/python benchmarks/catch_up.py --real               and a pair of RocketMQ 5.3.3 beside
    .venv/bin/python benchmarks/catch_up.py --mib 1024 --rounds 5

The store is filled once, with messages of 1 KiB. In each round its log is copied through a
loopback connection into a file, then an empty slave follows a master that has the store; a round's
figures stand beside each other because what disturbs one disturbs all. Time counts from the first
acknowledged byte to the last, as the master's GET_BROKER_HA_STATUS (907) tells: RocketMQ's slave
first waits 5 s (H-23). "Dispatched" is when the slave's queues have every message, too. A pair of
brokers and this program share the machine's processors, so on two of them nobody is fast.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from processes import HERE, Process, started

sys.path.insert(0, str(HERE.parent / "tests"))

from support.raw_remoting import ask
from support.real_rocketmq import RealRocketMQ, free_port

HA_STATUS = 907
MAX_OFFSET = 30
LIMIT_S = 600.0
PIECE = 256 * 1024
QUEUES = 16


def main() -> int:
    """Print one line a round, then medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mib", type=int, default=512, help="length of the log")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--real", action="store_true", help="RocketMQ 5.3.3 beside (needs Java)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="catch-up-") as work:
        filled = Path(work) / "master"
        fill(filled, options.mib)
        rows: dict[str, list[float]] = {}
        for number in range(options.rounds):
            folder = Path(work) / f"round-{number}"
            folder.mkdir()
            found = {"plain copy": plain_copy(filled, folder / "copy", options.mib << 20)}
            found |= ours(filled, folder)
            if options.real:
                found |= real(filled, folder)
            for name, value in found.items():
                rows.setdefault(name, []).append(value)
            print("; ".join(f"{name} {value:,.1f}" for name, value in found.items()), flush=True)
            shutil.rmtree(folder)
        for name, values in rows.items():
            print(f"median of {name}: {statistics.median(values):,.1f}")
    return 0


def fill(root: Path, mib: int) -> None:
    """A store of a broker that was stopped."""
    child = (str(HERE / "store_child.py"), "fill", "--data", str(root), "--bytes", str(mib << 20))
    with started(*child, "--queues", str(QUEUES)) as filling:
        filling.popen.send_signal(signal.SIGTERM)
        filling.popen.wait(60)


def plain_copy(root: Path, target: Path, size: int) -> float:
    """MB/s of the log's bytes, read, sent over loopback, and written by another thread."""
    log = sorted((root / "commitlog").iterdir())[0]
    listener = socket.create_server(("127.0.0.1", 0))

    def receive() -> None:
        peer, _ = listener.accept()
        buffer = memoryview(bytearray(PIECE))
        with peer, target.open("wb") as file:
            while count := peer.recv_into(buffer):
                file.write(buffer[:count])

    receiver = threading.Thread(target=receive)
    receiver.start()
    began = time.perf_counter()
    with socket.create_connection(listener.getsockname()) as sender, log.open("rb") as file:
        sender.sendfile(file, 0, size)
    receiver.join()
    listener.close()
    target.unlink()
    return size / (time.perf_counter() - began) / 1e6


# -- ours ----------------------------------------------------------------------------------------


def ours(filled: Path, folder: Path) -> dict[str, float]:
    """A slave of ours behind a master of ours."""
    port, ha_port = free_port((-2, 0, 1)), free_port()
    common = ("-m", "pocketmq.broker", "--name", "broker-a")
    master = (*common, "--port", str(port), "--data", str(filled), "--ha-listen-port", str(ha_port))
    slave = (
        *(*common, "--port", "0", "--data", str(folder / "slave"), "--broker-role", "SLAVE"),
        *("--broker-id", "1", "--ha-master-address", f"127.0.0.1:{ha_port}"),
    )
    with started(*master), started(*slave) as following:
        before, used = following.rss_anon_mib, following.cpu_s
        with most_memory(following.popen.pid) as most:
            rate = caught_up(f"127.0.0.1:{port}")
        used = following.cpu_s - used
        began = time.perf_counter()
        wait_for(lambda: dispatched(following) == dispatched_at(f"127.0.0.1:{port}"))
        late_s = time.perf_counter() - began
    return {
        "PocketMQ MB/s": rate,
        "PocketMQ dispatched later by s": late_s,
        "PocketMQ slave's processor s until then": used,
        "PocketMQ slave's anonymous MiB before": before,
        "PocketMQ slave's anonymous MiB at most": most[0],
    }


def dispatched(process: Process) -> list[int]:
    """Queue lengths at a broker of ours."""
    return dispatched_at(process.address)


def dispatched_at(address: str) -> list[int]:
    """Queue lengths."""
    found = []
    for number in range(QUEUES):
        topic, queue_id = divmod(number, 4)
        ext = {"topic": f"bench-{topic}", "queueId": str(queue_id)}
        found.append(int(ask(address, MAX_OFFSET, ext).ext["offset"]))
    return found


# -- RocketMQ's ----------------------------------------------------------------------------------


def real(filled: Path, folder: Path) -> dict[str, float]:
    """A slave of RocketMQ's behind a master of RocketMQ's, on a copy of the same store."""
    shutil.copytree(filled, folder / "real-master")
    sizes: dict[str, object] = {"mappedFileSizeCommitLog": 1 << 30}
    master = RealRocketMQ(folder / "real-master", folder / "work-master", settings=sizes)
    namesrv_port = int(master.namesrv_addr.rpartition(":")[2])
    slave = RealRocketMQ(
        folder / "real-slave",
        folder / "work-slave",
        settings={**sizes, "brokerRole": "SLAVE", "brokerId": 1},
        ports=(namesrv_port, free_port((-2, 0, 1))),
    )
    try:
        master.start_namesrv()
        master.start_broker()
        slave.start_broker()
        assert slave.broker is not None
        with most_memory(slave.broker.process.pid) as most:
            rate = caught_up(master.broker_addr)
    finally:
        for each in (slave, master):
            each.kill_broker()
        master.stop()
    return {"RocketMQ MB/s": rate, "RocketMQ slave's anonymous MiB at most": most[0]}


# -- measuring -----------------------------------------------------------------------------------


def caught_up(master: str) -> float:
    """MB/s between the first and the last acknowledged byte."""
    first: tuple[int, float] | None = None
    ends_at = time.perf_counter() + LIMIT_S
    while time.perf_counter() < ends_at:
        with contextlib.suppress(OSError):
            status = json.loads(ask(master, HA_STATUS, {}).body)
            now, end = time.perf_counter(), status["masterCommitLogMaxOffset"]
            for slave in status["haConnectionInfo"]:
                acked = slave["slaveAckOffset"]
                if first is None and acked > 0:
                    first = acked, now
                if first is not None and acked >= end:
                    took = now - first[1]
                    return (end - first[0]) / took / 1e6 if took else float("inf")
        time.sleep(0.005)
    raise TimeoutError(f"the slave did not catch up within {LIMIT_S:g} s")


def wait_for(condition: Callable[[], bool]) -> None:
    """Look every 20 ms."""
    ends_at = time.perf_counter() + LIMIT_S
    while not condition():
        if time.perf_counter() > ends_at:
            raise TimeoutError(f"not within {LIMIT_S:g} s")
        time.sleep(0.02)


@contextlib.contextmanager
def most_memory(pid: int) -> Iterator[list[float]]:
    """The most anonymous memory, in MiB, that a process has during a block: item 0."""
    most = [0.0]
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            with contextlib.suppress(psutil.Error, OSError):
                text = Path(f"/proc/{pid}/status").read_text()
                line = next(each for each in text.splitlines() if each.startswith("RssAnon"))
                most[0] = max(most[0], int(line.split()[1]) / 1024)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        ended.set()
        looking.join()


if __name__ == "__main__":
    sys.exit(main())
