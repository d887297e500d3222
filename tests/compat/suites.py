"""Programs with libraries that RocketMQ's users have, each with the rows that it prints.

A program prints `ROW name ok`, `ROW name absent` (this version has no such call), or
`ROW name failed why`. It talks to a cluster as a user's program does, and knows only the address.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from compat.ledger import OK
from parity.brokers import DEFAULT_RELEASE
from parity.mqadmin.runs import SUBCOMMANDS
from parity.mqadmin.suite import whole
from pocketmq.client import Admin
from pocketmq.runtime.profile import PROFILE_4_9
from support.cluster import running
from support.eventually import PATIENCE_MS
from support.java import BUILD_TIMEOUT_S, JavaError, JavaRun
from support.java_versions import (
    OPTIONS,
    ROWS,
    SETTINGS,
    SHARED,
    outcomes,
    run_rows,
    run_version,
)
from support.real_rocketmq import free_port, real_rocketmq
from support.secured import ADMIN, secured

HERE = Path(__file__).parent

OURS = "ours"
BROKERS = (OURS, "5.3.3")
"""Whose brokers are asked."""

KEY, SECRET = "desk-key", "desk-secret"
ACCOUNTS = f"""
accounts:
  - {{accessKey: {KEY}, secretKey: {SECRET}, defaultTopicPerm: PUB|SUB, defaultGroupPerm: PUB|SUB}}
  - {{accessKey: {ADMIN[0]}, secretKey: {ADMIN[1]}, admin: true}}
"""
"""Of a broker that checks signatures, as RocketMQ 4.9 with ACL 1.0."""

SOON = {"rocketmq.client.rebalance.waitInterval": "1000"}
"""Retry topics are found in a second, not in 20."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a program said.

    Attributes:
        rows: Row -> `ok`, `absent`, or `failed` and why.
        story: The ends of what it and the brokers printed.
        explained: Row that may fail -> why, from a ledger of the suite's own.
    """

    rows: dict[str, str]
    story: str = ""
    explained: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """A library that RocketMQ's users have, and a program with it.

    Attributes:
        name: For `--only`.
        title: What the library is called, in Markdown.
        versions: Those that are run; the first one in CI's sample.
        tools: Commands that it needs.
        rows: What the program does.
        topics: Made before it starts, 4 queues each.
        run: Runs one version against nameservers (`host:port`) with an empty folder.
        accounts: Whether the brokers have `ACCOUNTS`, in profile 4.9.
        starts_all: It starts its own clusters, RocketMQ's too, and is told of no nameserver.
    """

    name: str
    title: str
    versions: tuple[str, ...]
    tools: tuple[str, ...]
    rows: tuple[str, ...]
    topics: tuple[str, ...]
    run: Callable[[str, str, Path], Told]
    accounts: bool = False
    starts_all: bool = False

    def missing(self, brokers: str = OURS) -> str | None:
        """Why it cannot run here, against these of `BROKERS`."""
        if brokers != OURS and self.accounts:
            return "only PocketMQ's broker has its accounts"
        if brokers != OURS and self.starts_all:
            return "it compares both brokers, and needs no --broker"
        for tool in self.tools:
            if shutil.which(tool) is None:
                return f"{tool} is not installed (`make setup` as root brings Java, Maven and Go)"
        return None


async def told_by(suite: Suite, version: str, folder: Path, *, brokers: str = OURS) -> Told:
    """Start a cluster and run one version of a suite against it.

    Args:
        suite: Which one.
        version: Of its library.
        folder: Empty, for stores, logs and the program's home.
        brokers: One of `BROKERS`.

    Raises:
        JavaError: it cannot be built, or does not end.
    """
    if suite.starts_all:
        return await asyncio.to_thread(suite.run, version, "", folder)
    home, data = (_made(folder / name) for name in ("home", "cluster"))
    started = _with_accounts(data) if suite.accounts else _cluster(data, brokers)
    async with started as (nameservers, story):
        async with Admin(
            nameservers=nameservers,
            api_timeout_ms=PATIENCE_MS,
            encoding="json",  # which both kinds of broker understand
            credentials=ADMIN if suite.accounts else None,
        ) as admin:
            for topic in suite.topics:
                await admin.create_topic(topic)
        told = await asyncio.to_thread(suite.run, version, nameservers, home)
        return Told(told.rows, f"{told.story}\n{story()}")


@asynccontextmanager
async def _cluster(folder: Path, brokers: str) -> AsyncIterator[tuple[str, Callable[[], str]]]:
    if brokers == OURS:
        port = free_port((-2, 0))  # clients up to 4.4 use the broker's VIP port, two below its own
        async with running(folder, *OPTIONS, "--port", str(port)) as cluster:
            yield cluster.nameservers, cluster.story
    else:
        with real_rocketmq(folder / "store", settings=SETTINGS) as real:
            yield real.namesrv_addr, lambda: ""


@asynccontextmanager
async def _with_accounts(folder: Path) -> AsyncIterator[tuple[str, Callable[[], str]]]:
    file = folder / "plain_acl.yml"
    file.write_text(ACCOUNTS, encoding="utf-8")
    async with secured(
        folder,
        PROFILE_4_9,
        acl_enable=True,
        plain_acl_file=file,
        transaction_time_out_ms=1_000,
        transaction_check_interval_ms=1_500,
        enable_property_filter=True,
    ) as found:
        yield found.nameserver.address, lambda: ""


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _of(run: JavaRun) -> Told:
    return Told(outcomes(run), f"{run.stdout[-8000:]}\n{run.stderr[-8000:]}")


# -- the suites ---------------------------------------------------------------------------------


def _spring(version: str, nameservers: str, home: Path, project: str = "spring") -> Told:
    return _of(
        run_version(
            version,
            "shop.Shop",
            f"--rocketmq.name-server={nameservers}",
            source=HERE / "spring" / "Shop.java",
            beside=SHARED,
            project=HERE / project,
            properties={"user.home": str(home)} | SOON,
        )
    )


def _spring_3(version: str, nameservers: str, home: Path) -> Told:
    return _spring(version, nameservers, home, "spring3")


def _ons(version: str, nameservers: str, home: Path) -> Told:
    return _desk(version, nameservers, home)


def _ons_with_accounts(version: str, nameservers: str, home: Path) -> Told:
    return _desk(version, nameservers, home, "accounts")


def _desk(version: str, nameservers: str, home: Path, *words: str) -> Told:
    return _of(
        run_version(
            version, "ons.Desk", nameservers, KEY, SECRET, *words,
            source=HERE / "ons" / "Desk.java", beside=SHARED,
            properties={"user.home": str(home)} | SOON,
        )
    )  # fmt: skip


def _go(version: str, nameservers: str, home: Path) -> Told:
    guard, ours = os.pipe()  # its end is ours: if this process dies, so does the program
    try:
        done = subprocess.run(
            [built_go(version), nameservers.split(";")[0]],
            env={**os.environ, "HOME": str(home)}, stdin=guard, capture_output=True, text=True,
            timeout=BUILD_TIMEOUT_S,
        )  # fmt: skip
    finally:
        os.close(guard)
        os.close(ours)
    return _of(JavaRun(done.returncode, done.stdout, done.stderr))


def built_go(version: str) -> Path:
    """The program of `go/`, built with a version of the client.

    Raises:
        JavaError: it cannot be built.
    """
    source = HERE / "go"
    folder = source / "target" / version
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one at a time, also across pytest's processes
        for name in ("go.mod", "main.go"):
            shutil.copy(source / name, folder / name)
        require = f"-require=github.com/apache/rocketmq-client-go/v2@{version}"
        # Without cgo: compiling for it takes longer than the rows. Go writes its go.sum itself.
        env = os.environ | {"CGO_ENABLED": "0"}
        for words in (["mod", "edit", require], ["build", "-mod=mod", "-o", "shop", "."]):
            done = subprocess.run(
                ["go", *words],
                cwd=folder, env=env, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S,
            )  # fmt: skip
            if done.returncode != 0:
                raise JavaError(f"go {' '.join(words)}:\n{done.stdout}\n{done.stderr}")
    return folder / "shop"


def _java(version: str, nameservers: str, _home: Path) -> Told:
    return _of(run_rows(version, nameservers))


def _mqadmin(version: str, _nameservers: str, folder: Path) -> Told:
    assert version == DEFAULT_RELEASE, f"only mqadmin {DEFAULT_RELEASE} runs beside its broker"
    report = asyncio.run(whole(folder))
    rows = {name: OK if name in report.passed else "failed" for name in report.commands}
    for line in report.unexplained:
        rows[line.split(" ", 1)[0]] = f"failed: {line}"
    if report.stale:
        rows["ledger"] = f"failed: these do not differ any more: {', '.join(report.stale)}"
    ordered = {name: rows[name] for name in (*SUBCOMMANDS, *rows) if name in rows}
    story = (folder / "outputs").read_text(encoding="utf-8")
    return Told(ordered, story, report.explained)


JAVA = ("java", "javac", "mvn")
SHOP_ROWS = (
    "start", "send", "async", "one-way", "batch", "headers", "tags", "sql", "delay",
    "timer", "orderly", "broadcast", "retry", "dead-letter", "transaction", "request",
    "request-async", "pull", "close",
)  # fmt: skip
SHOP_TOPICS = (
    "SpringOrders", "SpringLater", "SpringSteps", "SpringPrices", "SpringRefused",
    "SpringAgain", "SpringPaid", "SpringQuestions", "SpringPull",
)  # fmt: skip
DESK_ROWS = (
    "send", "async", "one-way", "tags", "sql", "delay", "orderly", "transaction", "batch",
    "broadcast", "retry", "pull",
)  # fmt: skip
DESK_TOPICS = (
    "OnsSend", "OnsAsync", "OnsOneWay", "OnsTags", "OnsSql", "OnsDelay", "OnsOrderly", "OnsPaid",
    "OnsBatch", "OnsPrices", "OnsRetry", "OnsPull",
)  # fmt: skip

SUITES = (
    Suite(
        "spring",
        "`rocketmq-spring-boot-starter` (Spring Boot 2.7)",
        ("2.3.5",),
        JAVA,
        SHOP_ROWS,
        SHOP_TOPICS,
        _spring,
    ),
    Suite(
        "spring3",
        "`rocketmq-spring-boot-starter` (Spring Boot 3.5)",
        ("2.3.5",),
        JAVA,
        SHOP_ROWS,
        SHOP_TOPICS,
        _spring_3,
    ),
    Suite(
        "ons",
        "Alibaba Cloud's `ons-client`",
        ("1.8.8.8.Final",),
        JAVA,
        DESK_ROWS,
        DESK_TOPICS,
        _ons,
    ),
    Suite(
        "ons-accounts",
        "Alibaba Cloud's `ons-client`, with accounts (profile 4.9)",
        ("1.8.8.8.Final",),
        JAVA,
        (*DESK_ROWS, "refused"),
        DESK_TOPICS,
        _ons_with_accounts,
        accounts=True,
    ),
    Suite(
        "go",
        "`rocketmq-client-go/v2`",
        ("v2.1.3-0.20251226070945-2173d070fd1b",),
        ("go",),
        (
            "send", "async", "one-way", "batch", "tags", "sql", "delay", "timer", "orderly",
            "broadcast", "retry", "transaction", "request", "request-async", "pull",
        ),
        (
            "GoSend", "GoAsync", "GoOneWay", "GoBatch", "GoTags", "GoSql", "GoDelay", "GoTimer",
            "GoOrderly", "GoPrices", "GoRetry", "GoPaid", "GoQuestions", "GoMoreQuestions",
            "GoPull",
        ),
        _go,
    ),
    Suite(
        "java",
        "`rocketmq-client`",
        ("4.2.0", "4.5.2", "4.9.8", "5.3.3", "5.5.0"),
        JAVA,
        ROWS,
        (),
        _java,
    ),
    Suite(
        "mqadmin",
        "RocketMQ's `mqadmin`, beside RocketMQ's own broker",
        (DEFAULT_RELEASE,),
        JAVA,
        SUBCOMMANDS,
        (),
        _mqadmin,
        starts_all=True,
    ),
)  # fmt: skip


def suite_named(name: str) -> Suite:
    """A suite by its name."""
    return next(suite for suite in SUITES if suite.name == name)
