"""What `make` may have inherited from whoever started it, set to known values for all tests.

A test that passes in one shell and fails in another says nothing about PocketMQ.
"""

from __future__ import annotations

import contextlib
import locale
import os
import resource
import signal
import time

HERE = "localhost,127.0.0.1,::1"
VARIABLES = {
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    # A proxy that the user needs stays: registries may be behind it. It is asked for nothing that
    # runs on this machine.
    "NO_PROXY": HERE,
    "no_proxy": HERE,
    # A disk that is busy with other tests keeps a broker from its answer for longer than the usual
    # 3 s. Tests of silence set their own.
    "POCKETMQ_API_TIMEOUT_MS": "60000",
}
STARTS = ("POCKETMQ_", "PYTHON", "LC_", "AWS_", "SPARK_", "PYSPARK_", "HADOOP_", "GIT_")
"""How variables begin that users set for programs which the tests start: each means something else
there, and no test is about it."""
NAMES = ("NAMESRV_ADDR", "LANGUAGE", "PYTEST_ADDOPTS", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")
OF_TERMINALS = (
    *("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "CLICOLOR", "CLICOLOR_FORCE", "GITHUB_ACTIONS"),
    *("COLUMNS", "LINES", "TERMINAL_WIDTH"),
)
"""What pytest may obey; commands of a test may not."""
KEPT = ("PYTHONPATH", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE")
"""Where tests and the certificates of this machine are found."""

SIGNALS = (
    *(signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD),
    *(signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2),
)
MIB = 1 << 20
UNLIMITED = resource.RLIM_INFINITY
LIMITS = {
    resource.RLIMIT_NOFILE: ("open files", 4096, 65536),
    resource.RLIMIT_STACK: ("stack", 8 * MIB, UNLIMITED),
    # A process that a test kills with SIGBUS leaves no core in the folder of a store.
    resource.RLIMIT_CORE: ("core", 0, UNLIMITED),
    resource.RLIMIT_FSIZE: ("size of a file", UNLIMITED, UNLIMITED),
    resource.RLIMIT_AS: ("addresses", UNLIMITED, UNLIMITED),
    resource.RLIMIT_DATA: ("data", UNLIMITED, UNLIMITED),
    resource.RLIMIT_NPROC: ("processes", UNLIMITED, UNLIMITED),
}
"""Soft and hard limits. Processor time is left alone: tests/mutants holds its processes to it."""


def set_known() -> list[str]:
    """Set all but what belongs to terminals; which limits are lower than known, and stay so."""
    _signals()
    os.umask(0o022)
    _descriptors()
    for name in [*os.environ]:
        if (name.startswith(STARTS) or name in NAMES) and name not in KEPT:
            del os.environ[name]
    os.environ |= VARIABLES
    time.tzset()
    with contextlib.suppress(locale.Error):  # where C.UTF-8 is unknown, Python has set another
        locale.setlocale(locale.LC_ALL, "")
    return [text for which in LIMITS if (text := _limited(which))]


def forget_terminal() -> None:
    """Commands in tests write as to a file, as wide as they like; pytest has looked before."""
    for name in OF_TERMINALS:
        os.environ.pop(name, None)


def _signals() -> None:
    """What is ignored behind a `&` or by nohup would be so in all children, too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in SIGNALS:
        if signal.getsignal(each) is signal.SIG_IGN:
            signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _descriptors() -> None:
    """Close what was inherited: children inherit it, too. Python opens nothing inheritable."""
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # the folder's own is closed by now
            if int(name) > 2 and os.get_inheritable(int(name)):
                os.close(int(name))


def _limited(which: int) -> str:
    """Set one limit; no hard one can be raised again, by others than root."""
    name, soft, hard = LIMITS[which]
    _, hard_now = resource.getrlimit(which)
    hard = min(hard, hard_now, key=_as_number)
    given = min(soft, hard, key=_as_number)
    resource.setrlimit(which, (given, hard))
    return "" if given == soft else f"{name} {given} in place of {soft}"


def _as_number(limit: int) -> float:
    return float("inf") if limit == UNLIMITED else limit
