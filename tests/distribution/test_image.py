"""The wheel and the image: built, installed into a clean environment, and used."""

from __future__ import annotations

import configparser
import json
import os
import re
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pocketmq.cluster.spec import ClusterOptions
from support.dockerfile import Build, Image, context_files, exec_form, run, steps_of
from support.eventually import eventually
from support.nested_pytest import pytest_command

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = steps_of((ROOT / "Dockerfile").read_text())

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # making the image is a part


@pytest.fixture
def image(build: Build) -> Image:
    return list(build.stages.values())[-1]


@pytest.fixture
def wheel(build: Build) -> Path:
    (found,) = build.stages["build"].place("/wheels").glob("*.whl")
    return found


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        entries = configparser.ConfigParser()
        entries.read_string(
            file.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
        )
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"pocketmq", "pyspark_pocketmq.py", "pyspark_pocketmq_store.py"}
    portions = {path.name for path in ROOT.glob("*/pocketmq/*") if any(path.rglob("*.py"))}
    portions.remove("simulation")  # for who changes PocketMQ: a clone has it
    inside = {name.split("/")[1] for name in names if name.startswith("pocketmq/")}
    assert inside == portions | {"__main__.py"}, "and no __init__.py"
    assert all(f"pocketmq/{portion}/py.typed" in names for portion in portions)
    assert not [name for name in names if re.search(r"(^|/)(tests?|scripts|benchmarks)/", name)]
    assert dict(entries["console_scripts"]) == {"pocketmq": "pocketmq.cluster.cli.entry:main"}
    assert dict(entries["pytest11"]) == {"pocketmq": "pocketmq.testing.plugin"}


def test_the_wheel_has_the_page_and_the_labs_and_no_solution(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        contents = {name: file.read(name) for name in file.namelist()}
    page = ROOT / "cluster" / "pocketmq" / "cluster" / "watch_page" / "page"
    served = {path.relative_to(page).as_posix() for path in page.rglob("*.*")}
    assert {"index.html", "style.css", "main.js", "views/cluster.js"} <= served
    assert {f"pocketmq/cluster/watch_page/page/{each}" for each in served} <= contents.keys()
    for number in range(1, 9):
        assert f"pocketmq/cluster/labs/material/lab{number}/README.md" in contents
        assert f"pocketmq/cluster/labs/material/lab{number}/lab.py" in contents
    assert not [name for name in contents if "solution" in name.lower()]
    solutions = [path.read_bytes() for path in (ROOT / "tests/labs/solutions").glob("lab*.py")]
    assert len(solutions) == 8
    assert not [name for name, content in contents.items() if content in solutions]


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    sources = {path.relative_to(path.parts[0]).as_posix() for path in context_files(ROOT)
               if len(path.parts) > 2}  # fmt: skip
    assert sources <= names


def container_env(image: Image, folder: Path) -> dict[str, str]:
    """What a container of the image has, but for addresses of this machine."""
    return image.environment(
        POCKETMQ_CLUSTER_HOST="127.0.0.1",
        POCKETMQ_CLUSTER_CONTROL_HOST="127.0.0.2",  # not a local name: so it wants a token
        POCKETMQ_CLUSTER_ANY_PORT="true",
        POCKETMQ_CLUSTER_CONTROL_PORT="0",
        POCKETMQ_CLUSTER_DATA=str(folder),
    )


@contextmanager
def container(image: Image, folder: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The image's entry point as `docker run` starts it."""
    program = [str(image.bin / image.entrypoint[0]), *image.entrypoint[1:]]
    process = subprocess.Popen(
        program, env=env, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.send_signal(getattr(signal, image.stopsignal))
        process.communicate(timeout=200)


async def test_a_container_gets_healthy_serves_clients_and_stops_on_its_signal(
    image: Image, tmp_path: Path
) -> None:
    healthcheck = [image.bin / image.healthcheck[0], *image.healthcheck[1:-1], tmp_path]
    env = container_env(image, tmp_path)

    def is_healthy() -> bool:
        return subprocess.run(healthcheck, env=env, capture_output=True).returncode == 0

    assert image.healthcheck[1:] == ["ready", "--data", image.volumes[0]]
    assert not is_healthy()  # nothing runs yet
    with container(image, tmp_path, env) as process:
        await eventually(is_healthy, "the health check passes")
        assert process.stdout is not None
        told = dict(process.stdout.readline().strip().split("=", 1) for _ in range(3))
        assert told["POCKETMQ_CONTROL"].startswith("http://127.0.0.2:")
        assert told["POCKETMQ_CONTROL_TOKEN"]
        shell = image.environment(NAMESRV_ADDR=told["NAMESRV_ADDR"])
        pocketmq = str(image.bin / "pocketmq")
        run([pocketmq, "topic", "create", "orders"], tmp_path, shell)
        run([pocketmq, "send", "orders", "hello"], tmp_path, shell)
        consumed = run([pocketmq, "consume", "orders", "--count", "1"], tmp_path, shell)
        assert consumed.endswith(": hello\n")
        refused = {**shell, "POCKETMQ_CONTROL": told["POCKETMQ_CONTROL"]}
        with pytest.raises(AssertionError, match="send the token"):
            run([pocketmq, "ps"], tmp_path, refused)
        allowed = refused | {"POCKETMQ_CONTROL_TOKEN": told["POCKETMQ_CONTROL_TOKEN"]}
        shown = run([pocketmq, "ps"], tmp_path, allowed)
        assert f"broker-a\t{image.env['POCKETMQ_BROKER_BROKER_IP1']}:" in shown
    assert process.returncode == 0
    assert not is_healthy()
    assert (tmp_path / "broker-a" / "commitlog").is_dir()


def test_the_plugin_loads_in_a_project_that_installed_the_wheel(
    image: Image, tmp_path: Path
) -> None:
    python = str(image.bin / "python")
    run([python, "-m", "pip", "install", "--quiet", "pytest"], tmp_path, image.environment())
    page = (ROOT / "README.md").read_text()
    program = next(each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
                   if "def test_" in each)  # fmt: skip
    (tmp_path / "test_readme.py").write_text(program)
    ran = run(pytest_command(tmp_path, "-W", "error", python=python), tmp_path, image.environment())
    assert "1 passed" in ran
    where = "import pocketmq.testing; print(pocketmq.testing.__file__)"
    assert run([python, "-c", where], tmp_path, image.environment()).startswith(str(image.root))


def test_the_image_is_lean_and_its_user_is_not_root(image: Image) -> None:
    uid = image.user.split(":")[0]
    assert uid.isdigit()
    assert int(uid) > 0
    (user,) = image.noted("useradd")
    assert f"--uid {uid}" in user
    assert image.noted("chown") == [f"{image.user} {image.place('/data')}"]
    assert image.volumes == ["/data"]
    assert not image.place("/wheels").exists()  # nothing of the build is left
    assert not image.place("/src").exists()
    options = ClusterOptions()
    ports = {options.control_port, options.nameserver_port, options.broker_port,
             options.broker_port - 2, options.proxy_port}  # fmt: skip
    assert set(image.ports) == ports


def test_the_dockerfile_keeps_the_rules_of_linters() -> None:
    words = [step.word for step in DOCKERFILE]
    bases = [step.rest.split()[0] for step in DOCKERFILE if step.word == "FROM"]
    assert all(re.fullmatch(r"python:3\.\d+-slim", base) for base in bases)  # no `latest`
    assert len(set(bases)) == 1
    last = words[len(words) - words[::-1].index("FROM") :]
    assert last.count("ENTRYPOINT") == last.count("HEALTHCHECK") == last.count("USER") == 1
    assert last.index("USER") > max(at for at, word in enumerate(last) if word == "RUN")
    assert "ADD" not in words
    assert "CMD" not in words
    for word, rest in DOCKERFILE:
        if word == "ENTRYPOINT":
            exec_form(rest)
        if word == "WORKDIR":
            assert rest.startswith("/")
        if word == "RUN":
            assert "sudo" not in rest
            assert "cd " not in rest
            if "pip " in rest:
                assert "--no-cache-dir" in rest


def test_the_options_that_the_image_sets_exist() -> None:
    page = (ROOT / "docs" / "generated" / "config.md").read_text()
    settings = next(step.rest for step in DOCKERFILE if step.word == "ENV")
    names = re.findall(r"(POCKETMQ_\w+)=", settings)
    assert names
    for name in names:
        assert f"`{name}`" in page


def test_the_dev_container_knows_its_make_target_and_ports() -> None:
    settings = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    target = settings["postCreateCommand"].removeprefix("make ")
    assert f"\n{target}:" in (ROOT / "Makefile").read_text()
    options = ClusterOptions()
    assert settings["forwardPorts"] == [
        options.control_port, options.nameserver_port, options.broker_port
    ]  # fmt: skip
    assert set(settings["portsAttributes"]) == {str(port) for port in settings["forwardPorts"]}
    assert os.path.basename(settings["customizations"]["vscode"]["settings"][
        "python.defaultInterpreterPath"]) == "python"  # fmt: skip
