"""The pytest plugin: fixtures with a cluster behind them, and a report when a test fails.

It is loaded in every run of pytest, so it imports nothing of PocketMQ until a fixture is asked for.

    pocketmq           a cluster that the tests of the session share; names are the test's own
    pocketmq_cluster   a cluster of this test's own, to break
    pocketmq_clock     a cluster of this test's own on manual time; `pocketmq` is the same one
    pocketmq_faults    fault rules of a cluster of this test's own, which `pocketmq` then is
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from pocketmq.cluster.steering.cluster_control import ClusterControl
    from pocketmq.cluster.steering.shape import ClockKind, ClusterShape, Mode
    from pocketmq.testing.cluster import Cluster
    from pocketmq.testing.faults import Faults
    from pocketmq.testing.loop_thread import LoopThread

_INI = {
    "pocketmq_mode": "in-process (each role in a thread of the test's process) or processes",
    "pocketmq_brokers": "how many brokers a cluster has",
    "pocketmq_nameservers": "how many nameservers a cluster has",
    "pocketmq_profile": "RocketMQ line whose rules apply, such as 5.x or 4.9",
}
_DEFAULTS = {
    "pocketmq_mode": "in-process",
    "pocketmq_brokers": "1",
    "pocketmq_nameservers": "1",
    "pocketmq_profile": "5.x",
}

_CLUSTERS = pytest.StashKey[list["Cluster"]]()
_COUNTER = pytest.StashKey[list[int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--pocketmq-mode` and its siblings; the command line wins over the ini file."""
    group = parser.getgroup("pocketmq", "PocketMQ clusters for tests")
    for name, text in _INI.items():
        option = "--" + name.replace("_", "-")
        group.addoption(option, dest=name, default=None, help=f"{text} [{_DEFAULTS[name]}]")
        parser.addini(name, text, default=_DEFAULTS[name])


@pytest.fixture(scope="session")
def _pocketmq_shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ClusterControl, LoopThread]]:
    """The session's own roles; one set for each worker of xdist."""
    from pocketmq.testing.cluster import running_control

    with running_control(
        _shape(request.config), tmp_path_factory.mktemp("pocketmq-shared")
    ) as running:
        yield running


@pytest.fixture
def pocketmq(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster; topics and groups that are named through it are this test's own.

    The tests of a session share its roles. A test that also asks for `pocketmq_clock` or
    `pocketmq_cluster` gets that one, which is its own.
    """
    for own in ("pocketmq_clock", "pocketmq_cluster"):
        if own in request.fixturenames:
            yield request.getfixturevalue(own)
            return
    from pocketmq.testing.cluster import Cluster

    control, thread = request.getfixturevalue("_pocketmq_shared")
    cluster = Cluster(control, thread, prefix=_prefix(request), is_shared=True)
    with _reported(request, cluster):
        yield cluster


@pytest.fixture
def pocketmq_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of this test's own on real time: its roles may be frozen and killed."""
    if "pocketmq_clock" in request.fixturenames:
        yield request.getfixturevalue("pocketmq_clock")
        return
    with _own(request, tmp_path, "real") as cluster:
        yield cluster


@pytest.fixture
def pocketmq_clock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of this test's own whose time stands still until `advance`."""
    with _own(request, tmp_path, "manual") as cluster:
        yield cluster


@pytest.fixture
def pocketmq_faults(pocketmq_cluster: Cluster) -> Faults:
    """Fault rules of a cluster of this test's own; with `pocketmq_clock`, of that one."""
    return pocketmq_cluster.faults


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what its clusters did and said."""
    report = yield
    if report.when == "call" and report.failed:
        for cluster in item.stash.get(_CLUSTERS, []):
            report.sections.append(("PocketMQ cluster", cluster.report()))
    return report


@contextmanager
def _own(request: pytest.FixtureRequest, folder: Path, clock: ClockKind) -> Iterator[Cluster]:
    from pocketmq.testing.cluster import Cluster, running_control

    data = folder / "pocketmq"
    data.mkdir()
    with running_control(_shape(request.config, clock), data) as (control, thread):
        cluster = Cluster(control, thread)
        with _reported(request, cluster):
            yield cluster


@contextmanager
def _reported(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[None]:
    request.node.stash.setdefault(_CLUSTERS, []).append(cluster)
    try:
        yield
    finally:
        cluster.close_clients()


def _shape(config: pytest.Config, clock: ClockKind = "real") -> ClusterShape:
    from pocketmq.cluster.steering.shape import ClusterShape
    from pocketmq.runtime.profile import profile_named

    mode = _option(config, "pocketmq_mode")
    if mode not in ("in-process", "processes"):
        raise pytest.UsageError(f"pocketmq_mode is {mode!r}; write in-process or processes")
    return ClusterShape(
        mode=cast("Mode", mode),
        brokers=_number(config, "pocketmq_brokers"),
        nameservers=_number(config, "pocketmq_nameservers"),
        clock=clock,
        profile=profile_named(_option(config, "pocketmq_profile")).name,
    )


def _option(config: pytest.Config, name: str) -> str:
    given = config.getoption(name)
    return str(config.getini(name) if given is None else given)


def _number(config: pytest.Config, name: str) -> int:
    text = _option(config, name)
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 20:
        raise pytest.UsageError(f"{name} is {text!r}; write a number from 1 to 20")
    return int(text)


def _prefix(request: pytest.FixtureRequest) -> str:
    """`gw0-3-`: no two tests have the same, whichever worker runs them."""
    counter = request.config.stash.setdefault(_COUNTER, [0])
    counter[0] += 1
    return f"{os.environ.get('PYTEST_XDIST_WORKER', 't')}-{counter[0]}-"
