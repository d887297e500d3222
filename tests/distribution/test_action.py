"""The GitHub Action: its steps run as a runner runs them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from support.dockerfile import Build, run

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # making the image is a part

BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
"""As `shell: bash` does."""


PYTHON = """#!/bin/sh
# The runner's Python, which has made its environment before: it takes many seconds.
[ "$1 $2" = "-m venv" ] && exec ln -s {environment} "$3"
exit 1
"""


class Runner:
    """What a runner has: files that steps append to, and expressions it replaces.

    Args:
        folder: Its temporary folder.
        inputs: What the workflow gives.
        environment: What `python3 -m venv` makes.
    """

    def __init__(self, folder: Path, inputs: dict[str, str], environment: Path) -> None:
        self.python = folder / "tools" / "python3"
        self.python.parent.mkdir()
        self.python.write_text(PYTHON.format(environment=environment))
        self.python.chmod(0o755)
        path = f"{self.python.parent}:/usr/local/bin:/usr/bin:/bin"
        self.env = {"PATH": path, "HOME": str(folder), "RUNNER_TEMP": str(folder)}
        self.outputs: dict[str, str] = {}
        self._files = {
            name: folder / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH")
        }
        self._known = {"github.action_path": str(ROOT)}
        self._known |= {f"inputs.{name}": value for name, value in inputs.items()}
        self._folder = folder

    def value(self, text: str) -> str:
        """A text with `${{ ... }}` replaced; an unknown name is an error."""
        return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: self._known[found[1]], text)

    def step(self, step: dict[str, Any]) -> None:
        """Run one step, and take over what it leaves for the others."""
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]  # an input in a script would be a script
        for file in self._files.values():
            file.write_text("")
        own = {name: self.value(text) for name, text in step["env"].items()}
        files = {name: str(path) for name, path in self._files.items()}
        run([*BASH, step["run"]], self._folder, self.env | own | files)
        self.env |= _pairs(self._files["GITHUB_ENV"])
        found = _pairs(self._files["GITHUB_OUTPUT"])
        self._known |= {f"steps.{step.get('id')}.outputs.{k}": v for k, v in found.items()}
        for path in self._files["GITHUB_PATH"].read_text().split():
            self.env["PATH"] = f"{path}:{self.env['PATH']}"


def _pairs(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def test_the_action_starts_a_cluster_for_the_steps_that_follow(
    build: Build, tmp_path: Path
) -> None:
    (wheel,) = build.stages["build"].place("/wheels").glob("*.whl")
    inputs = {name: each["default"] for name, each in ACTION["inputs"].items()}
    inputs |= {"package": str(wheel), "arguments": "--any-port --control-port 0 --clock manual"}
    image = list(build.stages.values())[-1]
    runner = Runner(tmp_path, inputs, image.root / "venv")
    try:
        for step in ACTION["runs"]["steps"]:
            runner.step(step)
        outputs = {name: runner.value(each["value"]) for name, each in ACTION["outputs"].items()}
        assert outputs["nameservers"] == runner.env["NAMESRV_ADDR"]
        assert outputs["control"] == runner.env["POCKETMQ_CONTROL"]
        user = "pocketmq topic create orders && pocketmq clock advance 60 && pocketmq ps"
        said = run([*BASH, user], tmp_path, runner.env)
        assert "orders: 4 queues" in said
        assert "broker-a" in said
        assert (Path(outputs["data"]) / "logs" / "broker-a.log").exists()
        own = run([*BASH, "command -v python3"], tmp_path, runner.env).strip()
        assert own == str(runner.python)  # the job's own Python stays the first one
    finally:
        subprocess.run([*BASH, "pocketmq down"], env=runner.env, timeout=200)
    left = [each for each in psutil.process_iter(["cmdline"])
            if str(tmp_path) in " ".join(each.info["cmdline"] or [])]  # fmt: skip
    assert not left


def test_every_input_is_used_and_every_value_is_known() -> None:
    text = (ROOT / "action.yml").read_text()
    used = set(re.findall(r"\$\{\{ inputs\.(\w+) \}\}", text))
    assert used == set(ACTION["inputs"])
    ids = {step.get("id") for step in ACTION["runs"]["steps"]}
    for output in ACTION["outputs"].values():
        found = re.fullmatch(r"\$\{\{ steps\.(\w+)\.outputs\.\w+ \}\}", output["value"])
        assert found is not None
        assert found[1] in ids
