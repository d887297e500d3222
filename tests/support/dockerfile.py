"""Carries a Dockerfile out without a container engine, step by step, below a folder.

Each `FROM python:...` is a virtual environment and an empty root folder. Absolute paths of the
image become paths below that folder, `RUN` lines go to a shell, and commands that would change the
machine (`useradd`, `chown`) only note what they were asked. What the image would start is started
the same way, with the image's environment.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

NOTED = ("useradd", "chown")
STEP_LIMIT_S = 280


class Step(NamedTuple):
    """One instruction, on one line."""

    word: str
    rest: str


def steps_of(text: str) -> list[Step]:
    """The instructions of a Dockerfile, without comments, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    split = (line.split(None, 1) for line in joined.splitlines() if line.strip())
    return [Step(word.upper(), rest) for word, rest in split]


def exec_form(text: str) -> list[str]:
    """The words of `["a", "b"]`; the shell form is refused, because a shell would get signals."""
    words = json.loads(text)
    assert isinstance(words, list), text
    assert all(isinstance(word, str) for word in words), text
    return words


def settings_of(text: str) -> dict[str, str]:
    """`A=1 B="x y"` as a table."""
    return {name: value.strip('"') for name, value in re.findall(r'([\w.]+)=("[^"]*"|\S+)', text)}


@dataclass
class Image:
    """What a stage has come to."""

    root: Path
    workdir: str = "/"
    user: str = "root"
    env: dict[str, str] = field(default_factory=dict)
    entrypoint: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)
    stopsignal: str = ""
    ports: list[int] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)

    @property
    def bin(self) -> Path:
        """Where the environment's programs are."""
        return self.root / "venv" / "bin"

    def place(self, path: str) -> Path:
        """Where a path of the image lies."""
        return self.root / os.path.join(self.workdir, path).lstrip("/")

    def inside(self, text: str) -> str:
        """A text whose absolute paths lead below the root, if the image has made them."""
        return re.sub(r"(?<![\w./])/(src|wheels|data)\b", f"{self.root}/\\1", text)

    def environment(self, **more: str) -> dict[str, str]:
        """What a program of the image finds, with its paths below the root."""
        path = f"{self.root / 'noted'}:{self.bin}:/usr/local/bin:/usr/bin:/bin"
        own = {name: self.inside(value) for name, value in self.env.items()}
        kept = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "SSL_"))}
        basic = {"PATH": path, "HOME": str(self.root), "PIP_NO_COMPILE": "1"}
        return basic | kept | own | more

    def noted(self, command: str) -> list[str]:
        """Each time a command that changes the machine was called: its words."""
        path = self.root / "noted" / f"{command}.calls"
        return path.read_text().splitlines() if path.exists() else []


class Build:
    """A Dockerfile that is carried out.

    Args:
        context: The folder with the Dockerfile.
        folder: Empty; everything happens below it.
    """

    def __init__(self, context: Path, folder: Path) -> None:
        self.stages: dict[str, Image] = {}
        self._context = context
        self._folder = folder

    def run(self) -> Image:
        """All steps; the last stage."""
        image: Image | None = None
        for step in steps_of((self._context / "Dockerfile").read_text()):
            if step.word == "FROM":
                image = self._begin(step.rest)
                continue
            assert image is not None
            self._carry_out(image, step)
        assert image is not None
        return image

    def _begin(self, rest: str) -> Image:
        words = rest.split()
        assert words[0].startswith("python:"), rest
        name = words[2] if len(words) == 3 else str(len(self.stages))
        root = self._folder / name
        (root / "noted").mkdir(parents=True)
        for command in NOTED:
            script = root / "noted" / command
            script.write_text(f'#!/bin/sh\necho "$*" >> {script}.calls\n')
            script.chmod(0o755)
        make_environment(root / "venv")
        image = self.stages[name] = Image(root)
        return image

    def _carry_out(self, image: Image, step: Step) -> None:
        word, rest = step
        if word == "WORKDIR":
            image.workdir = rest
            image.place(".").mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            self._copy(image, rest.split())
        elif word == "RUN":
            run(["/bin/sh", "-ec", image.inside(rest)], image.place("."), image.environment())
        elif word == "ENV":
            image.env |= settings_of(rest)
        elif word == "USER":
            image.user = rest
        elif word == "EXPOSE":
            image.ports = [int(port) for port in rest.split()]
        elif word == "VOLUME":
            image.volumes.append(rest)
        elif word == "STOPSIGNAL":
            image.stopsignal = rest
        elif word == "HEALTHCHECK":
            image.healthcheck = exec_form(rest[rest.index("CMD") + 3 :])
        elif word == "ENTRYPOINT":
            image.entrypoint = exec_form(rest)
        else:
            assert word == "LABEL", f"{word} is not known here"

    def _copy(self, image: Image, words: list[str]) -> None:
        goal = image.place(words[-1])
        if words[0].startswith("--from="):
            stage = self.stages[words[0].removeprefix("--from=")]
            shutil.copytree(stage.place(words[1]), goal, dirs_exist_ok=True)
            return
        assert words == [".", "."], words
        for path in context_files(self._context):
            to = goal / path
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._context / path, to)


def context_files(context: Path) -> list[Path]:
    """What `.dockerignore` lets through: it begins with `*`, and names what comes back."""
    lines = (context / ".dockerignore").read_text().splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert lines[0] == "*"
    wanted = [line[1:] for line in lines if line.startswith("!")]
    unwanted = [line.removeprefix("**/") for line in lines[1:] if not line.startswith("!")]
    found = []
    for pattern in wanted:
        hits = sorted(context.glob(pattern))
        assert hits, f"nothing is called {pattern}"
        for hit in hits:
            found += [hit] if hit.is_file() else [each for each in hit.rglob("*") if each.is_file()]
    relative = [path.relative_to(context) for path in found]
    return [
        path
        for path in relative
        if not any(fnmatch(part, pattern) for part in path.parts for pattern in unwanted)
    ]


def make_environment(folder: Path) -> None:
    """A virtual environment with pip and nothing else."""
    uv = shutil.which("uv")
    command = [uv, "venv", "--quiet", "--seed", "--python", sys.executable] if uv else []
    run(
        [*(command or [sys.executable, "-m", "venv"]), str(folder)], folder.parent, dict(os.environ)
    )


def run(command: list[str], folder: Path, env: dict[str, str]) -> str:
    """Run a program to its end; what it printed. Fails with its output."""
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=STEP_LIMIT_S
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
