"""Whatever started the tests, a test and what it starts have known surroundings."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.nested_pytest import pytest_command

ROOT = Path(__file__).parents[2]

ODD = """
import os, resource, signal, sys
for name in ("HUP", "INT", "QUIT", "TERM", "CHLD", "USR1"):
    signal.signal(signal.Signals["SIG" + name], signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.umask(0o077)
os.dup2(os.open(os.devnull, os.O_RDONLY), 57)
for which, soft in (("NOFILE", 200), ("CORE", -1), ("STACK", 1 << 20), ("FSIZE", 1 << 30)):
    which = getattr(resource, "RLIMIT_" + which)
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (hard if soft == -1 else soft, hard))
os.environ |= {
    "LC_ALL": "POSIX", "LANG": "tr_TR.ISO-8859-9", "LANGUAGE": "tr", "TZ": "Asia/Kathmandu",
    "POCKETMQ_PORT": "1", "NAMESRV_ADDR": "x:1", "PYTHONWARNINGS": "ignore",
    "PYTHONNODEBUGRANGES": "1", "SPARK_MASTER": "yarn", "AWS_PROFILE": "mine",
    "MAKEFLAGS": "-j --jobserver-auth=3,4", "PYTEST_ADDOPTS": "-ra", "COLUMNS": "20",
    "FORCE_COLOR": "1", "http_proxy": "http://127.0.0.1:9", "no_proxy": "example.com",
}
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Surroundings that a shell, a service or `make` may hand on."""

SEEN = """
import json, locale, os, resource, signal, subprocess, sys, time

LOOK = '''
import json, locale, os, resource, signal, sys, time
umask = os.umask(0)
print(json.dumps({
    "ignored": [s.name for s in signal.valid_signals() if isinstance(s, signal.Signals)
                and signal.getsignal(s) is signal.SIG_IGN],
    "blocked": [*signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "umask": umask,
    "open": [fd for fd in range(3, 100) if os.path.exists(f"/dev/fd/{fd}")
             and os.get_inheritable(fd)],
    "limits": {n: resource.getrlimit(getattr(resource, "RLIMIT_" + n))
               for n in ("NOFILE", "CORE", "STACK", "FSIZE")},
    "environment": dict(os.environ),
    "encoding": locale.getencoding(),
    "zone": time.tzname[0],
}))
'''

def test_it():
    print("SEEN", subprocess.run([sys.executable, "-c", LOOK], close_fds=False,
                                 capture_output=True, text=True, check=True).stdout)
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process sees that a test started, where pytest was started in odd surroundings."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "test_seen.py").write_text(SEEN)
    command = pytest_command(folder, "-s", "-p", "conftest", "-p", "no:cacheprovider", str(folder))
    ran = subprocess.run(
        [sys.executable, "-c", ODD, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in ran.stdout.splitlines() if "SEEN" in line]
    assert len(lines) == 1, ran.stdout + ran.stderr
    found: dict[str, Any] = json.loads(lines[0].partition("SEEN")[2])
    return found


def test_no_signal_is_ignored_or_blocked(seen: dict[str, Any]) -> None:
    # Python itself ignores SIGPIPE and SIGXFSZ.
    assert set(seen["ignored"]) <= {"SIGPIPE", "SIGXFSZ"}
    assert seen["blocked"] == []


def test_files_have_the_usual_rights(seen: dict[str, Any]) -> None:
    assert seen["umask"] == 0o022


def test_no_descriptor_is_inherited(seen: dict[str, Any]) -> None:
    assert seen["open"] == []


def test_limits_are_known(seen: dict[str, Any]) -> None:
    soft = {name: limits[0] for name, limits in seen["limits"].items()}
    for name, wanted in {"NOFILE": 4096, "CORE": 0, "STACK": 8 << 20}.items():
        hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
        assert soft[name] == (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard))
    assert soft["FSIZE"] == resource.getrlimit(resource.RLIMIT_FSIZE)[1]


def test_the_locale_is_known(seen: dict[str, Any]) -> None:
    assert seen["encoding"] == "UTF-8"
    assert seen["environment"]["LANG"] == "C.UTF-8"
    assert not {"LC_ALL", "LANGUAGE"} & set(seen["environment"])
    assert seen["zone"] == "UTC"


def test_variables_of_the_user_are_gone(seen: dict[str, Any]) -> None:
    gone = {"POCKETMQ_PORT", "NAMESRV_ADDR", "PYTHONWARNINGS", "PYTHONNODEBUGRANGES"}
    gone |= {"SPARK_MASTER", "AWS_PROFILE", "MAKEFLAGS", "COLUMNS", "FORCE_COLOR", "PYTEST_ADDOPTS"}
    assert not gone & set(seen["environment"])


def test_this_machine_is_not_asked_through_a_proxy(seen: dict[str, Any]) -> None:
    environment = seen["environment"]
    assert environment["http_proxy"] == "http://127.0.0.1:9"
    for name in ("NO_PROXY", "no_proxy"):  # programs read one or the other
        assert environment[name].split(",") == ["localhost", "127.0.0.1", "::1"]
