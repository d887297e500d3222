"""The pytest plugin: fixtures for clusters, and a report when a test fails.

It is loaded in every run of pytest, so it imports nothing of PocketMQ until a fixture is used.

    pocketmq           a cluster that the tests of the session share, with names for each test
    pocketmq_cluster   a cluster for this test only, whose roles may be frozen and killed
    pocketmq_clock     a cluster for this test only on manual time; `pocketmq` is the same one
    pocketmq_faults    fault rules of a cluster for this test only, which `pocketmq` then is
    pocketmq_cluster_factory    starts any number of clusters for this test, each with its options
    pocketmq_noproc    a cluster that runs already, such as that of `pocketmq up`
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from pocketmq.cluster.steering.access import ClusterAccess
    from pocketmq.cluster.steering.cluster_control import ClusterControl
    from pocketmq.cluster.steering.shape import ClockKind, ClusterShape, Mode
    from pocketmq.runtime.loop_thread import LoopThread
    from pocketmq.testing.cluster import Cluster, Faults

_INI = {
    "pocketmq_mode": "in-process (each role in a thread of the test's process) or processes",
    "pocketmq_brokers": "number of brokers in a cluster",
    "pocketmq_nameservers": "number of nameservers in a cluster",
    "pocketmq_proxy": "true or false: a gRPC proxy for RocketMQ 5's SDKs, at cluster.endpoints",
    "pocketmq_profile": "RocketMQ release whose rules apply: 5.x or 4.9",
    "pocketmq_host": "address on which clusters listen",
    "pocketmq_noproc": "nameservers of the running cluster; else NAMESRV_ADDR, or 127.0.0.1:9876",
    "pocketmq_tls": "true or false: TLS on every port of a cluster, and nothing else",
    "pocketmq_members_must_prove": "true or false: with TLS, nameservers trust the cluster's roles",
    "pocketmq_strangers_read_routes": "true or false: with that, everybody may still read routes",
    "pocketmq_ca_file": "whom clients of pocketmq_noproc trust, from the ini file's folder on",
    "pocketmq_users": "file of users and rules, from the ini file's folder on; brokers then check",
}
_DEFAULTS = {
    "pocketmq_mode": "in-process",
    "pocketmq_brokers": "1",
    "pocketmq_nameservers": "1",
    "pocketmq_proxy": "false",
    "pocketmq_profile": "5.x",
    "pocketmq_host": "127.0.0.1",
    "pocketmq_noproc": "",
    "pocketmq_tls": "false",
    "pocketmq_members_must_prove": "false",
    "pocketmq_strangers_read_routes": "false",
    "pocketmq_ca_file": "",
    "pocketmq_users": "",
}

_REPORTS = pytest.StashKey[list["_Report"]]()
_SESSION = pytest.StashKey[str]()
_COUNTER = pytest.StashKey[list[int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options like `--pocketmq-mode`; the command line takes precedence over the ini file."""
    group = parser.getgroup("pocketmq", "PocketMQ clusters for tests")
    for name, text in _INI.items():
        option = "--" + name.replace("_", "-")
        # No default here: None means that the command line does not set it, so the ini file
        # decides.
        group.addoption(option, dest=name, default=None, help=f"{text} [{_DEFAULTS[name]}]")
        parser.addini(name, text, default=_DEFAULTS[name])


@pytest.fixture(scope="session")
def _pocketmq_shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ClusterControl, LoopThread]]:
    """The roles that the tests of the session share; each worker of xdist has its own."""
    from pocketmq.testing.cluster import running_control

    with running_control(
        _shape(request.config), tmp_path_factory.mktemp("pocketmq-shared")
    ) as running:
        yield running


@pytest.fixture
def pocketmq(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster; its methods make names of topics and groups that no other test has.

    The tests of a session share its roles. In a test that also uses `pocketmq_clock` or
    `pocketmq_cluster` it is that cluster, which is not shared.
    """
    for own in ("pocketmq_clock", "pocketmq_cluster"):
        # Looked up by name: as an argument of this fixture it would start a cluster in every test.
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
    """A cluster for this test only, on real time: its roles may be frozen and killed."""
    # A test that also uses a manual clock gets the same cluster under both names.
    if "pocketmq_clock" in request.fixturenames:
        yield request.getfixturevalue("pocketmq_clock")
        return
    with _own(request, tmp_path, "real") as cluster:
        yield cluster


@pytest.fixture
def pocketmq_clock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster for this test only, whose time only moves by `advance`."""
    with _own(request, tmp_path, "manual") as cluster:
        yield cluster


@pytest.fixture
def pocketmq_cluster_factory(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., Cluster]]:
    """Starts a cluster for this test only, each time it is called.

    Its arguments are those of `start_cluster`, such as `brokers=2` or `clock="manual"`; what is not
    given is as for the other fixtures. The clusters end with the test.
    """
    from pocketmq.testing.cluster import start_cluster

    shape, folders = _shape(request.config), itertools.count(1)
    usual: dict[str, Any] = {
        name: getattr(shape, name)
        for name in (
            "mode",
            "brokers",
            "nameservers",
            "proxy",
            "profile",
            "host",
            "tls",
            "members_must_prove",
            "strangers_read_routes",
        )
    }
    if (access := shape.access) is not None:
        usual |= {"users": access.users, "super_users": access.super_users, "acl": access.rules}
    with ExitStack() as running:

        def start(**options: Any) -> Cluster:
            # The test's own options come last, so that they override the session's.
            given = {**usual, "data": tmp_path / f"pocketmq-{next(folders)}", **options}
            cluster = running.enter_context(start_cluster(**given))
            # Entered last, so left first: the report is kept while the cluster still runs.
            running.enter_context(_reported(request, cluster))
            return cluster

        yield start


@pytest.fixture(scope="session")
def _pocketmq_running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ClusterControl, LoopThread]]:
    """The control of the cluster that runs already."""
    from pocketmq.cluster.steering.shape import ClusterShape
    from pocketmq.testing.cluster import steered
    from pocketmq.testing.running_roles import RunningRoles

    given = _option(request.config, "pocketmq_noproc")
    # RocketMQ's own tools read the same variable.
    nameservers = given or os.environ.get("NAMESRV_ADDR") or "127.0.0.1:9876"
    roles = RunningRoles(
        nameservers,
        tmp_path_factory.mktemp("pocketmq-noproc"),
        tls=_flag(request.config, "pocketmq_tls"),
        ca_file=_file(request.config, "pocketmq_ca_file"),
    )
    with steered(roles, ClusterShape()) as running:
        yield running


@pytest.fixture
def pocketmq_noproc(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster that runs already; the test neither starts it nor stops it.

    It is found by `--pocketmq-noproc`, else by NAMESRV_ADDR, else at 127.0.0.1:9876. With
    `--pocketmq-tls true` or `--pocketmq-ca-file`, else by POCKETMQ_TLS, connections are TLS. Names
    of topics and groups are the test's own; topics and groups of earlier sessions stay.
    """
    from pocketmq.testing.cluster import Cluster

    control, thread = request.getfixturevalue("_pocketmq_running")
    session = request.config.stash.setdefault(_SESSION, uuid.uuid4().hex[:6])
    prefix = f"{session}-{_prefix(request)}"  # earlier sessions have left topics there
    cluster = Cluster(control, thread, prefix=prefix, is_shared=True)
    with _reported(request, cluster):
        yield cluster


@pytest.fixture
def pocketmq_faults(pocketmq_cluster: Cluster) -> Faults:
    """Fault rules of a cluster for this test only; with `pocketmq_clock`, of that one."""
    return pocketmq_cluster.faults


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add timeline and logs of the test's clusters to the report of a failure.

    The failure may be one of the test, or of another fixture, before the test or after it.
    """
    report = yield
    # After every phase: a cluster's fixture may fail at its end although the test passed.
    if report.failed:
        for each in item.stash.get(_REPORTS, []):
            report.sections.append(("PocketMQ cluster", each.text()))
    return report


class _Report:
    """What a test's report says about a cluster, while it runs and after its end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._last_text: str | None = None

    def text(self) -> str:
        return self._cluster.report() if self._last_text is None else self._last_text

    def cluster_ends(self) -> None:
        """Keep what can be said at once: another fixture's end may have failed."""
        self._last_text = self._cluster.last_report()


@contextmanager
def _own(request: pytest.FixtureRequest, folder: Path, clock: ClockKind) -> Iterator[Cluster]:
    from pocketmq.testing.cluster import Cluster, running_control

    data = folder / "pocketmq"
    # A folder of its own, so that the test's files in `tmp_path` do not lie among the stores.
    data.mkdir()
    with running_control(_shape(request.config, clock), data) as (control, thread):
        cluster = Cluster(control, thread)
        with _reported(request, cluster):
            yield cluster


@contextmanager
def _reported(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[None]:
    report = _Report(cluster)
    request.node.stash.setdefault(_REPORTS, []).append(report)
    try:
        yield
    finally:
        # Before the clients' thread and the roles end: afterwards there is no state left to report.
        report.cluster_ends()
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
        proxy=_flag(config, "pocketmq_proxy"),
        clock=clock,
        profile=profile_named(_option(config, "pocketmq_profile")).name,
        host=_option(config, "pocketmq_host"),
        access=_access(config),
        tls=_flag(config, "pocketmq_tls"),
        members_must_prove=_flag(config, "pocketmq_members_must_prove"),
        strangers_read_routes=_flag(config, "pocketmq_strangers_read_routes"),
    )


def _access(config: pytest.Config) -> ClusterAccess | None:
    """Users and rules of the file that is named, if any is."""
    from pocketmq.cluster.steering.access import ClusterAccess

    named = _file(config, "pocketmq_users")
    return None if named is None else ClusterAccess.read(named)


def _file(config: pytest.Config, name: str) -> Path | None:
    given = config.getoption(name)  # from where pytest was started on
    if given is not None:
        return Path(given) if given else None
    # A path in the ini file is relative to the project's root, not to the current folder.
    named = config.getini(name)
    return config.rootpath / named if named else None


def _option(config: pytest.Config, name: str) -> str:
    given = config.getoption(name)
    return str(config.getini(name) if given is None else given)


def _number(config: pytest.Config, name: str) -> int:
    text = _option(config, name)
    # ASCII first: `isdigit` is true for digits of other scripts as well.
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 20:
        raise pytest.UsageError(f"{name} is {text!r}; write a number from 1 to 20")
    return int(text)


def _flag(config: pytest.Config, name: str) -> bool:
    text = _option(config, name)
    if text not in ("true", "false"):
        raise pytest.UsageError(f"{name} is {text!r}; write true or false")
    return text == "true"


def _prefix(request: pytest.FixtureRequest) -> str:
    """A prefix such as `gw0-3-`, different for each test on all workers."""
    # One counter for all fixtures of a worker, so that its shared cluster never sees a name twice.
    counter = request.config.stash.setdefault(_COUNTER, [0])
    counter[0] += 1
    return f"{os.environ.get('PYTEST_XDIST_WORKER', 't')}-{counter[0]}-"
