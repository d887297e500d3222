"""Recipes with containers, run without a container engine: what the image starts, in processes.

Not run: the engine itself, its networks and its port mapping, and Compose, whose file is read here.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import official_sdk
from support.container_daemon import STOP_LIMIT_S, container_daemon
from support.dockerfile import Build, Image, run
from support.eventually import eventually
from support.nested_pytest import pytest_command

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "recipes"
SERVICES: dict[str, Any] = yaml.safe_load((RECIPES / "compose" / "compose.yaml").read_text())[
    "services"
]

LIMIT_S = 900.0  # a first run of Maven or Go downloads what it needs
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(LIMIT_S)]  # making the image is a part


@pytest.fixture
def image(build: Build) -> Image:
    return list(build.stages.values())[-1]


def test_the_recipe_of_testcontainers_passes(image: Image, tmp_path: Path) -> None:
    python = str(image.bin / "python")
    wanted = ["pytest", "testcontainers==4.15.0"]
    run([python, "-m", "pip", "install", "--quiet", *wanted], tmp_path, image.environment())
    project = Path(shutil.copytree(RECIPES / "testcontainers", tmp_path / "testcontainers"))
    (tmp_path / "data").mkdir()
    with container_daemon(image, tmp_path / "data") as daemon:
        env = image.environment(DOCKER_HOST=daemon.docker_host, TESTCONTAINERS_RYUK_DISABLED="true")
        said = run(pytest_command(project, python=python), project, env)
        assert daemon.container is None, "the test ends it"
    assert "1 passed" in said


def run_in_container(
    name: str, command: list[str], image: Image, tmp_path: Path, **more: str
) -> str:
    """What the test of a recipe prints, whose container is a process of the stand-in."""
    project = Path(shutil.copytree(RECIPES / name, tmp_path / name))
    (tmp_path / "data").mkdir()
    with container_daemon(image, tmp_path / "data") as daemon:
        env = dict(os.environ, DOCKER_HOST=daemon.docker_host, TESTCONTAINERS_RYUK_DISABLED="true")
        done = subprocess.run(
            command, cwd=project, env=env | more,
            capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert daemon.container is None, "the test ends it"
    return done.stdout


@pytest.mark.nightly
@pytest.mark.java
def test_the_recipe_of_testcontainers_for_java_passes(image: Image, tmp_path: Path) -> None:
    maven = ["mvn", "-B", "-ntp", "test"]
    said = run_in_container("testcontainers-java", maven, image, tmp_path)
    assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0" in said


@pytest.mark.nightly
@pytest.mark.go
def test_the_recipe_of_testcontainers_for_go_passes(image: Image, tmp_path: Path) -> None:
    go = ["go", "test", "-count=1", "-vet=off", "./..."]
    said = run_in_container("testcontainers-go", go, image, tmp_path, CGO_ENABLED="0")
    assert re.match(r"ok\s+example/orders", said)


def words_of(service: str) -> list[str]:
    """Its command, with paths of the recipe's folder for those that are mounted."""
    mounts = [each.split(":") for each in SERVICES[service]["volumes"]]
    at = {inside: str(RECIPES / "compose" / outside) for outside, inside, _ in mounts}
    return [at.get(word, word) for word in SERVICES[service]["command"]]


@contextmanager
def service(image: Image, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The service of the cluster, as Compose would start it."""
    entry = [str(image.bin / image.entrypoint[0]), *image.entrypoint[1:]]
    process = subprocess.Popen(
        [*entry, *words_of("pocketmq")], env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.send_signal(getattr(signal, image.stopsignal))
        process.communicate(timeout=STOP_LIMIT_S)


async def test_the_commands_of_the_compose_recipe_do_what_it_says(
    image: Image, tmp_path: Path
) -> None:
    assert SERVICES["shop"]["depends_on"] == {"pocketmq": {"condition": "service_healthy"}}
    healthcheck = [str(image.bin / image.healthcheck[0]), *image.healthcheck[1:-1], str(tmp_path)]
    env = image.environment(
        POCKETMQ_CLUSTER_HOST="127.0.0.1",
        POCKETMQ_CLUSTER_CONTROL_HOST="127.0.0.1",
        POCKETMQ_CLUSTER_ANY_PORT="true",
        POCKETMQ_CLUSTER_CONTROL_PORT="0",
        POCKETMQ_CLUSTER_DATA=str(tmp_path),
    )

    def is_healthy() -> bool:
        return subprocess.run(healthcheck, env=env, capture_output=True).returncode == 0

    python, program, where = words_of("shop")
    assert (python, where) == ("python", "pocketmq:8081")
    with service(image, env) as process:
        await eventually(is_healthy, "the cluster is healthy")
        assert process.stdout is not None
        told = dict(process.stdout.readline().strip().split("=", 1) for _ in range(3))
        sdk = str(official_sdk.sdk_python())
        billed = run([sdk, program, told["POCKETMQ_PROXY"]], tmp_path, {"PATH": ""})
    assert billed == "billed order 17\n"


def test_the_compose_recipe_installs_the_sdk_that_is_tested() -> None:
    lines = SERVICES["shop"]["build"]["dockerfile_inline"].splitlines()
    assert lines[1].split()[-1] == f"rocketmq-python-client=={official_sdk.VERSION}"
    assert SERVICES["pocketmq"]["build"] == os.path.relpath(ROOT, RECIPES / "compose")
