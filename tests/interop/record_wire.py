"""Recipe of `tests/golden/wire`: record what a real RocketMQ says on the wire.

    python tests/interop/record_wire.py [FOLDER]

Starts RocketMQ's nameserver and broker, puts recording proxies between them and RocketMQ's Java
client, runs `Conversation` and `SendTransactions` once with JSON headers and once with RocketMQ's
binary ones, and keeps one exchange of each kind.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.golden import GOLDEN, write_hex
from support.java import run_java
from support.raw_remoting import RawHeader, ask, parse
from support.real_rocketmq import RealRocketMQ, free_port
from support.recording import RecordedFrame, RecordingProxy

NAMES = {
    10: "send_message", 11: "pull_message", 12: "query_message", 14: "query_consumer_offset",
    15: "update_consumer_offset", 17: "update_and_create_topic",
    29: "search_offset_by_timestamp", 30: "get_max_offset", 31: "get_min_offset",
    32: "get_earliest_msg_storetime", 33: "view_message_by_id", 34: "heart_beat",
    35: "unregister_client", 36: "consumer_send_msg_back", 37: "end_transaction",
    38: "get_consumer_list_by_group", 39: "check_transaction_state",
    40: "notify_consumer_ids_changed", 41: "lock_batch_mq", 42: "unlock_batch_mq",
    46: "check_client_config", 103: "register_broker", 104: "unregister_broker",
    105: "get_routeinfo_by_topic", 106: "get_broker_cluster_info", 310: "send_message_v2",
    320: "send_batch_message", 322: "query_data_version", 324: "send_reply_message",
    325: "send_reply_message_v2", 326: "push_reply_message_to_client",
    901: "get_broker_member_group", 904: "broker_heartbeat",
}  # fmt: skip
OUTCOMES = {
    1: "system_error", 17: "topic_not_exist", 19: "pull_not_found", 20: "pull_retry_immediately",
    21: "pull_offset_moved", 22: "query_not_found",
}  # fmt: skip
BROKER_SETTINGS = {
    "enablePropertyFilter": "true",
    "transactionTimeOut": 1000,
    "transactionCheckInterval": 1500,
    "registerNameServerPeriod": 10_000,
    "forceRegister": "false",  # so that it asks for the data version first
}
COMPRESSED_SETTINGS = b"compressedRegister=true\nforceRegister=true\n"


def variant(header: RawHeader) -> str:
    """What tells requests of one code apart."""
    if header.code in (310, 10):
        properties = header.ext.get("i", "")
        if "TRAN_MSG\1" in properties:
            return "half"
        if "DELAY\1" in properties:
            return "delayed"
        if int(header.ext.get("f", "0")) & 1:
            return "compressed"
    if header.code == 34:
        return "consumer" if b"CONSUME_" in header.body else "producer"
    if header.code == 103 and header.body[:1] == b"x":  # a zlib stream, whatever its header says
        return "compressed"
    if header.code == 37:
        outcome = {"8": "commit", "12": "rollback", "0": "unknown"}[header.ext["commitOrRollback"]]
        return f"{outcome}_from_check" if header.ext["fromTransactionCheck"] == "true" else outcome
    return ""


def exchanges(frames: list[RecordedFrame]) -> Iterator[tuple[str, RawHeader, RecordedFrame, bytes]]:
    """Name, request header, request and response (b"" for one-way) of each exchange."""
    waiting: dict[tuple[int, bool, int], tuple[RawHeader, RecordedFrame]] = {}
    for frame in frames:
        _, header = parse(frame.data)
        if not header.is_response:
            if header.is_oneway:
                yield name_of(header, 0), header, frame, b""
            else:
                waiting[frame.connection, frame.from_client, header.opaque] = header, frame
            continue
        key = frame.connection, not frame.from_client, header.opaque
        if key in waiting:
            request_header, request = waiting.pop(key)
            yield name_of(request_header, header.code), request_header, request, frame.data


def name_of(header: RawHeader, outcome: int) -> str:
    """Such as `send_message_v2.delayed` or `pull_message.pull_not_found`."""
    parts = [NAMES[header.code], variant(header), "oneway" if header.is_oneway else ""]
    if outcome:
        parts.append(OUTCOMES.get(outcome) or f"code_{outcome}")
    return ".".join(part for part in parts if part)


def save(folder: Path, sides: tuple[str, str], frames: list[RecordedFrame], encoding: str) -> None:
    """Write the first exchange of each name; `sides` = (who connects, who listens)."""
    for name, header, request, response in exchanges(frames):
        path = folder / encoding / f"{name}.request.hex"
        if path.exists():
            continue
        asks, answers = sides if request.from_client else sides[::-1]
        title = f"{NAMES[header.code].upper()} ({header.code})"
        write_hex(path, request.data, f"{title}, {asks} -> {answers}")
        if response:
            reply = folder / encoding / f"{name}.response.hex"
            write_hex(reply, response, f"answer to {title}, {answers} -> {asks}")


def record(folder: Path, encoding: str, work: Path) -> None:
    """Run the whole conversation in one header encoding."""
    properties = {"rocketmq.serialize.type": encoding.upper()}
    for_clients, for_broker = (f"127.0.0.1:{free_port()}" for _ in range(2))
    ports = free_port(), free_port((-2, 0, 1))
    cluster = RealRocketMQ(
        work / "store",
        work / "rocketmq",
        settings=BROKER_SETTINGS,
        properties=properties,
        # The broker listens on .1 and tells clients .2, where the proxy is, at the same port.
        broker_ip="127.0.0.2",
        broker_namesrv_addr=for_broker,
        ports=ports,
    )
    with (
        RecordingProxy(for_clients, cluster.namesrv_addr) as namesrv_side,
        RecordingProxy(for_broker, cluster.namesrv_addr) as registration,
        RecordingProxy(f"127.0.0.2:{ports[1]}", cluster.broker_addr) as broker_side,
    ):
        try:
            cluster.start_namesrv()
            cluster.start_broker()
            run_java("Conversation", for_clients, properties=properties)
            run_java(
                "SendTransactions", for_clients, "Recorded", 3, "--checks-s", 30,
                properties=properties,
            )  # fmt: skip
            await_compressed_registration(cluster, registration)
            cluster.stop_broker()  # what it says at its end is recorded too
        finally:
            cluster.stop()
    save(folder, ("client", "nameserver"), namesrv_side.frames, encoding)
    save(folder, ("broker", "nameserver"), registration.frames, encoding)
    save(folder, ("client", "broker"), broker_side.frames, encoding)


def await_compressed_registration(cluster: RealRocketMQ, registration: RecordingProxy) -> None:
    """Have the broker register once more, compressed.

    RocketMQ 5.3.3 compresses the body and leaves `compressed` false in the header, so that its own
    nameserver answers with a NullPointerException: it cannot be on from the start.
    """
    update_config = 25
    assert ask(cluster.broker_addr, update_config, body=COMPRESSED_SETTINGS).code == 0
    while not any("compressed" in n for n, *_ in exchanges(registration.frames)):
        assert cluster.broker is not None
        assert cluster.broker.running_for(1.0)


def main() -> None:
    """Record both encodings into the folder of the command line, or the golden one."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "wire"
    for encoding in ("json", "rocketmq"):
        shutil.rmtree(folder / encoding, ignore_errors=True)
        with tempfile.TemporaryDirectory() as work:
            record(folder, encoding, Path(work))
        files = list((folder / encoding).glob("*.hex"))
        print(f"{encoding}: {len(files)} frames, {sum(f.stat().st_size for f in files)} bytes")


if __name__ == "__main__":
    main()
