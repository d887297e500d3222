"""RocketMQ's own nameserver, broker and controller, started for tests: the oracle.

All come from Maven Central as libraries. They listen on 127.0.0.1 with free ports, keep everything
below the given folder, take at most 1 GiB of heap, and stop when the test does (`Guarded.java`).
"""

from __future__ import annotations

import random
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from support.java import JavaError, java_command
from support.raw_remoting import ask

GET_ROUTE = 105
GET_CLUSTER_INFO = 106
GET_NEXT_BROKER_ID = 1012
POLL_S = 0.1
START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 200.0
PLAIN = {"tls.server.mode": "disabled"}
"""Nobody speaks TLS here, and a key for it takes each server two seconds of processor time."""


class JavaServer:
    """One started JVM; `.log` is the file with what it printed."""

    def __init__(self, name: str, command: list[str], log: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=dict(env)
            )

    def running_for(self, seconds: float) -> bool:
        """Wait up to `seconds`; False as soon as the process has ended."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def stop(self) -> None:
        """End it cleanly: its shutdown hooks flush and unregister."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        if self.running_for(STOP_TIMEOUT_S):
            self.kill()
            raise JavaError(f"{self.name} did not stop within {STOP_TIMEOUT_S} s:\n{self.story()}")

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, `abort` stays."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def story(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-4000:]


class RealRocketMQ:
    """A nameserver, a broker and a controller of RocketMQ: 5.3.3, or another `release`.

    Attributes:
        namesrv_addr: `host:port` for clients.
        broker_addr: where the broker listens, `127.0.0.1:port`.
        controller_addr: where the controller listens, alone in its group.
        store_dir: the broker's store root.
    """

    def __init__(
        self,
        store_dir: Path,
        work_dir: Path,
        *,
        broker_name: str = "broker-a",
        settings: Mapping[str, object] | None = None,
        properties: Mapping[str, str] | None = None,
        broker_ip: str = "127.0.0.1",
        broker_namesrv_addr: str | None = None,
        ports: tuple[int, int] | None = None,
        namesrv_settings: Mapping[str, object] | None = None,
        controller_settings: Mapping[str, object] | None = None,
        release: str = "",
    ) -> None:
        self.release = release
        self.namesrv_settings = dict(namesrv_settings or {})
        self.controller_settings = dict(controller_settings or {})
        self.store_dir = store_dir
        self.work_dir = work_dir
        self.broker_name = broker_name
        self.settings = dict(settings or {})
        self.properties = dict(properties or {})
        self.broker_ip = broker_ip
        namesrv_port, self.broker_port = ports or (free_port(), free_port((-2, 0, 1)))
        self.namesrv_addr = f"127.0.0.1:{namesrv_port}"
        self.broker_addr = f"127.0.0.1:{self.broker_port}"
        self.broker_namesrv_addr = broker_namesrv_addr or self.namesrv_addr
        self.controller_addr = f"127.0.0.1:{free_port()}"
        self.namesrv: JavaServer | None = None
        self.broker: JavaServer | None = None
        self.controller: JavaServer | None = None
        for folder in (store_dir, work_dir / "conf"):
            folder.mkdir(parents=True, exist_ok=True)
        if release.startswith("4."):  # they read these of their home, and do not start without
            for name in ("namesrv", "broker"):
                path = work_dir / "conf" / f"logback_{name}.xml"
                path.write_text('<configuration><root level="OFF"/></configuration>')

    def start_namesrv(self) -> None:
        """Start the nameserver and wait until it answers."""
        config = self._write_config(
            "namesrv.conf",
            {
                "bindAddress": "127.0.0.1",
                "listenPort": self.namesrv_addr.rpartition(":")[2],
                **self.namesrv_settings,
            },
        )
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        self.namesrv = self._start("namesrv", main, config, ("-Xmx256m",))
        self._until_answered(self.namesrv, self.namesrv_addr, GET_CLUSTER_INFO, {})

    def start_broker(self) -> None:
        """Start the broker on `store_dir` and wait until the nameserver routes to it."""
        config = self._write_config(
            "broker.conf",
            {
                "namesrvAddr": self.broker_namesrv_addr,
                "brokerClusterName": "DefaultCluster",
                "brokerName": self.broker_name,
                "brokerId": 0,
                "brokerIP1": self.broker_ip,
                "brokerIP2": self.broker_ip,
                "bindAddress": "127.0.0.1",
                "listenPort": self.broker_port,
                "haListenPort": self.broker_port + 1,
                "storePathRootDir": self.store_dir,
                "diskMaxUsedSpaceRatio": 95,
                "reviveQueueNum": 1,  # each of these services waits for seconds at stop
                "timerWheelEnable": "false",
                # It refuses with SYSTEM_BUSY what waited for 200 ms, or while a write takes 1 s.
                "brokerFastFailureEnable": "false",
                "osPageCacheBusyTimeOutMills": 60_000,
                **self.settings,
            },
        )
        main = "org.apache.rocketmq.broker.BrokerStartup"
        jvm: tuple[str, ...] = ("-Xmx1g", "-XX:MaxDirectMemorySize=512m")
        if self.release.startswith("4."):  # it unmaps a deleted queue's files by reflection
            inner = ("java.nio", "sun.nio.ch", "jdk.internal.ref")
            jvm += tuple(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in inner)
        self.broker = self._start("broker", main, config, jvm)
        # The topic named like the broker exists as soon as the broker has registered.
        topic = {"topic": self.broker_name}
        self._until_answered(self.broker, self.namesrv_addr, GET_ROUTE, topic)

    def start_controller(self) -> None:
        """Start the controller and wait until it leads its group, in which it is alone."""
        config = self._write_config(
            "controller.conf",
            {
                "controllerDLegerGroup": "group",
                "controllerDLegerPeers": f"n0-{self.controller_addr}",
                "controllerDLegerSelfId": "n0",
                "controllerStorePath": self.store_dir / "controller",
                "configStorePath": self.store_dir / "controller.properties",
                "mappedFileSize": 16 << 20,
                **self.controller_settings,
            },
        )
        main = "org.apache.rocketmq.controller.ControllerStartup"
        self.controller = self._start("controller", main, config, ("-Xmx256m",))
        names = {"clusterName": "c", "brokerName": "b"}
        self._until_answered(self.controller, self.controller_addr, GET_NEXT_BROKER_ID, names)

    def stop_broker(self) -> None:
        """Stop the broker cleanly; its store is complete on disk afterwards."""
        if self.broker is not None:
            broker, self.broker = self.broker, None
            broker.stop()

    def kill_broker(self) -> None:
        """SIGKILL the broker."""
        if self.broker is not None:
            broker, self.broker = self.broker, None
            broker.kill()

    def stop(self) -> None:
        """Kill all that run: to stop a broker cleanly takes it ten seconds.

        Whoever reads its store afterwards calls `stop_broker` before.
        """
        self.kill_broker()
        for server in (self.namesrv, self.controller):
            if server is not None:
                server.kill()
        self.namesrv = self.controller = None

    def _start(self, name: str, main: str, config: Path, jvm: tuple[str, ...]) -> JavaServer:
        command = java_command(
            "Guarded",
            main,
            "-c",
            config,
            server=True,
            release=self.release,
            home=self.work_dir / name,
            properties=PLAIN | self.properties,
            jvm=jvm,
        )
        env = {"ROCKETMQ_HOME": str(self.work_dir), "PATH": "/usr/bin:/bin"}
        return JavaServer(name, command, self.work_dir / f"{name}.out", env)

    def _write_config(self, name: str, settings: Mapping[str, object]) -> Path:
        path = self.work_dir / "conf" / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _until_answered(
        self, server: JavaServer, address: str, code: int, ext: dict[str, str]
    ) -> None:
        for _ in range(int(START_TIMEOUT_S / POLL_S)):
            with suppress(OSError):
                if ask(address, code, ext, timeout_s=5.0).code == 0:
                    return
            if not server.running_for(POLL_S):
                raise JavaError(f"{server.name} ended while it started:\n{server.story()}")
        server.kill()
        raise JavaError(f"{server.name} not ready after {START_TIMEOUT_S} s:\n{server.story()}")


@contextmanager
def real_rocketmq(
    store_dir: Path,
    work_dir: Path | None = None,
    *,
    broker_name: str = "broker-a",
    settings: Mapping[str, object] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Iterator[RealRocketMQ]:
    """A running nameserver and broker; both are killed at the end (see `RealRocketMQ.stop`).

    Args:
        store_dir: the broker's store root; an existing store is opened.
        work_dir: configuration, logs and home folder; default beside the store.
        broker_name: name that the store's queues belong to.
        settings: more lines for `broker.conf`, such as `{"mappedFileSizeCommitLog": 1 << 20}`.
        properties: JVM system properties of both, such as the serialize type.
    """
    cluster = RealRocketMQ(
        store_dir,
        work_dir or store_dir.with_name(f"{store_dir.name}.rocketmq"),
        broker_name=broker_name,
        settings=settings,
        properties=properties,
    )
    try:
        cluster.start_namesrv()
        cluster.start_broker()
        yield cluster
    finally:
        cluster.stop()


def free_port(around: tuple[int, ...] = (0,)) -> int:
    """A port below the ephemeral range that is free, as are those at the given distances."""
    for _ in range(1000):
        port = random.randrange(15000, 32000)
        with suppress(OSError):
            for distance in around:
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port + distance))
            return port
    raise OSError("no free port found between 15000 and 32000")
