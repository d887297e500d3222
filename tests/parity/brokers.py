"""Both brokers, nameservers or controllers, with the same options, started once for all pairs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from parity.wire import VERSION_5_3_3
from support.raw_remoting import ask
from support.real_rocketmq import (
    GET_CLUSTER_INFO,
    GET_NEXT_BROKER_ID,
    GET_ROUTE,
    RealRocketMQ,
    free_port,
)

SETTINGS: Mapping[str, object] = {
    "timerWheelEnable": "true",
    "mappedFileSizeCommitLog": 64 << 20,
    "diskMaxUsedSpaceRatio": 95,
    # Which of eight queues a handle names depends on how many pops came before.
    "reviveQueueNum": 1,
    # It refuses with SYSTEM_BUSY what waited for 200 ms, or while a write takes 1 s.
    "brokerFastFailureEnable": "false",
    "osPageCacheBusyTimeOutMills": 60_000,
    "autoDeleteUnusedStats": "true",
}
"""Where both leave RocketMQ's defaults, so that a loaded machine does not decide."""

NAMESERVER_SETTINGS: Mapping[str, object] = {"scanNotActiveBrokerInterval": 300}
"""Silent brokers are looked for every 5 s, longer than a sequence takes."""

CONTROLLER_SETTINGS: Mapping[str, object] = {
    # Both look for masters that died ten times a second, so that a sequence can wait for it.
    "scanNotActiveBrokerInterval": 100,
    "scanInactiveMasterInterval": 100,
    # RocketMQ raises the epoch once for each try that finds nobody.
    "electMasterMaxRetryCount": 1,
    # The brokers of a sequence are names that nobody resolves.
    "notifyBrokerRoleChanged": "false",
}
"""Each of the two is alone in its group."""

NO_SECOND_NET: Mapping[str, object] = {"scanInactiveMasterInterval": 600_000}
"""RocketMQ's second look for dead masters races with the first, and the epoch then rises twice. For
PocketMQ this is only the time after the start in which nobody is taken for dead."""

CONTROLLER_PROPERTIES: Mapping[str, str] = {"rocketmq.remoting.version": str(VERSION_5_3_3)}
"""A controller of its own tells version 0. This is what `NamesrvStartup` sets, so that one inside a
nameserver tells its release."""

PUT_KV_CONFIG = 100
START_TRIES = 600
DEFAULT_RELEASE = "5.3.3"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two.

    Attributes:
        name: `PocketMQ` or `RocketMQ`.
        broker, nameserver: `host:port`.
        store: folder of the broker's store.
    """

    name: str
    broker: str
    nameserver: str
    store: Path = Path()


@dataclass(frozen=True, slots=True)
class Sides:
    """Ours and theirs."""

    ours: Side
    theirs: Side


@contextmanager
def both_brokers(
    folder: Path, settings: Mapping[str, object] | None = None, release: str = ""
) -> Iterator[Sides]:
    """Start both with a nameserver each; both are killed at the end.

    Args:
        folder: of everything.
        settings: more of them, of both.
        release: RocketMQ's, if not 5.3.3; ours has the profile of its first two numbers.
    """
    wanted = {**SETTINGS, **(settings or {})}
    theirs = RealRocketMQ(
        folder / "theirs" / "store", folder / "theirs", settings=wanted, release=release
    )
    try:
        theirs.start_namesrv()
        theirs.start_broker()
        with _ours(folder / "ours", wanted, profile_of(release)) as ours:
            yield Sides(
                ours, Side("RocketMQ", theirs.broker_addr, theirs.namesrv_addr, theirs.store_dir)
            )
    finally:
        theirs.stop()


def profile_of(release: str) -> str:
    """The name of our profile that follows a release of RocketMQ."""
    return ".".join((release or DEFAULT_RELEASE).split(".")[:2])


@contextmanager
def both_nameservers(
    folder: Path, settings: Mapping[str, object] | None = None, release: str = ""
) -> Iterator[Sides]:
    """The same with a nameserver alone, which stands where a broker would: it is asked."""
    wanted = {**NAMESERVER_SETTINGS, **(settings or {})}
    theirs = RealRocketMQ(
        folder / "theirs" / "store", folder / "theirs", namesrv_settings=wanted, release=release
    )
    try:
        theirs.start_namesrv()
        with _our_nameserver(folder / "ours", wanted, profile_of(release)) as ours:
            address = theirs.namesrv_addr
            # Whether the namespace is there must not depend on what other pairs do meanwhile.
            for each in (ours, address):
                fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": "all", "value": "broker-a:4"}
                assert ask(each, PUT_KV_CONFIG, fields, timeout_s=60.0).code == 0
            yield Sides(Side("PocketMQ", ours, ours), Side("RocketMQ", address, address))
    finally:
        theirs.stop()


@contextmanager
def both_controllers(
    folder: Path, settings: Mapping[str, object] | None = None, release: str = ""
) -> Iterator[Sides]:
    """The same with a controller alone, which stands where a broker would: it is asked."""
    wanted = {**CONTROLLER_SETTINGS, **(settings or {})}
    theirs = RealRocketMQ(
        folder / "theirs" / "store",
        folder / "theirs",
        controller_settings={**wanted, **NO_SECOND_NET},
        properties=CONTROLLER_PROPERTIES,
        release=release,
    )
    try:
        theirs.start_controller()
        address = theirs.controller_addr
        with _our_controller(folder / "ours", wanted, profile_of(release)) as ours:
            yield Sides(Side("PocketMQ", ours, ours), Side("RocketMQ", address, address))
    finally:
        theirs.stop()


@contextmanager
def _our_nameserver(folder: Path, wanted: Mapping[str, object], profile: str) -> Iterator[str]:
    port = free_port()
    settings = {
        "bindAddress": "127.0.0.1",
        "listenPort": port,
        "kvConfigPath": folder / "kv.json",
        "configStorePath": folder / "namesrv.properties",
        **wanted,
    }
    address = f"127.0.0.1:{port}"
    with _our_role(folder, "nameserver", settings, profile) as process:
        _until_answered(process, address, GET_CLUSTER_INFO, {}, folder)
        yield address


@contextmanager
def _our_controller(folder: Path, wanted: Mapping[str, object], profile: str) -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    settings = {
        "controllerDLegerGroup": "group",
        "controllerDLegerPeers": f"n0-{address}",
        "controllerDLegerSelfId": "n0",
        "controllerStorePath": folder / "store",
        "configStorePath": folder / "controller.properties",
        **wanted,
    }
    with _our_role(folder, "controller", settings, profile) as process:
        names = {"clusterName": "c", "brokerName": "b"}
        _until_answered(process, address, GET_NEXT_BROKER_ID, names, folder)
        yield address


@contextmanager
def _our_role(
    folder: Path, role: str, settings: Mapping[str, object], profile: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours with a file of options; killed at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    conf = folder / f"{role}.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            [
                sys.executable, "-m", f"pocketmq.{role}", "-c", str(conf), "--profile", profile,
                "--exit-with-parent",
            ],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@contextmanager
def _ours(folder: Path, wanted: Mapping[str, object], profile: str) -> Iterator[Side]:
    folder.mkdir(parents=True, exist_ok=True)
    nameserver, port = free_port(), free_port((-2, 0, 1))
    settings = {
        "namesrvAddr": f"127.0.0.1:{nameserver}",
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": 0,
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": port,
        "haListenPort": port + 1,
        "storePathRootDir": folder / "store",
        **wanted,
    }
    conf = folder / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    python = [sys.executable, "-m"]
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "out").open("wb") as out:
        try:
            started.append(
                subprocess.Popen(
                    [
                        *python, "pocketmq.nameserver", "--port", str(nameserver), "--profile",
                        profile, "--exit-with-parent", "--host", "127.0.0.1",
                        "--kv-config-path", str(folder / "kv.json"),
                    ],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                )
            )  # fmt: skip
            _until_answered(started[0], f"127.0.0.1:{nameserver}", GET_CLUSTER_INFO, {}, folder)
            started.append(
                subprocess.Popen(
                    [
                        *python, "pocketmq.broker", "-c", str(conf), "--profile", profile,
                        "--exit-with-parent", "--host", "127.0.0.1", "--encoding", "json",
                    ],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                )
            )  # fmt: skip
            topic = {"topic": "broker-a"}
            _until_answered(started[1], f"127.0.0.1:{nameserver}", GET_ROUTE, topic, folder)
            address = f"127.0.0.1:{port}"
            yield Side("PocketMQ", address, f"127.0.0.1:{nameserver}", folder / "store")
        finally:
            for process in reversed(started):
                process.kill()
                process.wait()


def _until_answered(
    process: subprocess.Popen[bytes], address: str, code: int, ext: dict[str, str], folder: Path
) -> None:
    for _ in range(START_TRIES):
        with suppress(OSError):
            if ask(address, code, ext, timeout_s=5.0).code == 0:
                return
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            break
    raise AssertionError(f"PocketMQ did not start:\n{(folder / 'out').read_text()[-4000:]}")
