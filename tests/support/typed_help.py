"""Types the examples of `--help`, as `typed_page.py` types pages, beside clusters that suit them.

    python tests/support/typed_help.py 0 FOLDER      # those of the first world

A command that ends is run by a fork of this process, which has imported all: 200 of them would
else import for a minute.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple, NoReturn

import typer

from pocketmq.cluster.cli.main import main, make_app
from pocketmq.runtime.clock import SystemClock

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.typed_page import LIMIT_S, Line, Reader, nothing_left, use_own_network

EXAMPLE: Final = re.compile(r"^ +((?:seq \d+ \| )?pocketmq .*?)(?: {2,}.*)?$", re.MULTILINE)

NOT_RUN: Final = {
    r"pocketmq demo": "minutes; docs/store-tools.md has one, test_demo_modes.py the others",
    r"pocketmq pipeline flights": "the stores of a demo; tests/cluster/test_demo.py runs the job",
    r"pocketmq pipeline latency --sample": "ten minutes; docs/jobs.md takes fewer looks",
    r".*://HOST": "other machines",
    r".*--registry http:": "a registry of the user's; test_framed_schemas.py has one",
    r"pocketmq pipeline trace 7F": "an id of nobody",
    r".*\.\.\.": "an id of nobody",
    r"pocketmq failover .*--to 2": "replica 2 leads after the one before it",
    r".*host1": "other machines",
    r".*mymodule": "a module of the user's",
    r".*java -jar": "a program of the user's",
    r"pocketmq clock set 2026": "the date passes",
    r"pocketmq clock set 1796": "the date passes",
}
"""How examples begin that are not run, and why."""
STATUS: Final = {
    "pocketmq lab check": 1,
    "pocketmq group explain": 1,
    "pocketmq pipeline schema store:": 1,
}
"""Exit status where it is not 0: a lab that was just begun is not solved, there is something to
explain, and the message of `orders.toml` does not fit its schema."""


class World(NamedTuple):
    """A cluster, what is typed before the examples, and the commands whose examples fit it."""

    before: tuple[str, ...]
    commands: tuple[str, ...]


WORLDS: Final = (
    World(
        (
            "pocketmq up --data ./cluster --seed orders.toml --slaves 1",
            'pocketmq send orders "hello" --tag new --key order-17 --count 1000',
        ),
        (
            *("topic create", "send", "consume", "ps", "logs", "seed", "ready", "connections"),
            "doctor",
            *("topic list", "topic route", "topic stats", "group list", "group show"),
            *("group explain", "group reset", "group simulate", "message show", "message tail"),
            *("message export", "message import", "message resend", "explain message"),
            *("config show", "config get", "fault add", "fault list"),
            *("fault clear", "watch", "topic update", "topic delete", "config set"),
            *("group create", "group update", "group delete"),
            *(
                "user create",
                "user list",
                "acl grant",
                "acl list",
                "acl explain",
                "acl export",
                "acl revoke",
            ),
            *("user update", "user delete"),
        ),
    ),
    World(
        ("pocketmq up --clock manual --data ./cluster",),
        (
            *("clock show", "clock advance", "clock next", "clock run", "clock freeze"),
            *("clock set", "freeze", "thaw", "kill", "snapshot save", "snapshot list"),
            *("snapshot load", "wipe", "reset", "fault-proxy"),
        ),
    ),
    World(
        ("pocketmq up --controllers 3 --replicas 3",),
        ("partition", "failover", "cluster show"),  # the last starts a cluster of its own
    ),
    World(
        (
            "pocketmq up --data ./flights --seed orders.toml --wait-ready",
            'pocketmq send orders "hello" --tag new --key order-17 --count 500',
            "pocketmq down --data ./flights",
            "cp -r ./flights/broker-a ~/store",
        ),
        (
            *("store inspect", "store verify", "store cat", "store rebuild", "lab list"),
            *("lab start", "lab check"),
        ),
    ),
    World((), ("nameserver", "broker", "proxy", "controller")),
    World((), ("up",)),
    World(
        (
            "pocketmq up --data ./cluster --brokers 2 --slaves 1 --seed orders.toml",
            """pocketmq send orders '{"id": 17}' --tag new --key order-17 --count 20""",
            """pocketmq send changes '{"op": "c", "after": {"id": 1}, "ts_ms": 1}' --count 5""",
            "pocketmq pipeline latency --sample looks.jsonl --every 1 --rounds 2",
            "cp -r ./cluster/broker-a ~/store",
        ),
        (
            *("pipeline export", "pipeline latency", "pipeline trace", "pipeline replay"),
            *("pipeline schema", "pipeline schema-check", "pipeline package"),
            *("pipeline rebalance", "pipeline audit"),  # the last takes down the cluster
        ),
    ),
)
PIPELINE: Final = len(WORLDS) - 1
"""The world of Spark's jobs, which take minutes and need Java."""
FIRST: Final = {
    "pocketmq topic delete orders --yes": "pocketmq topic create orders",
    "pocketmq group delete billing --clean-offset --yes": "pocketmq group create billing",
    "pocketmq pipeline audit ./cluster --out findings.parquet": "pocketmq down --data ./cluster",
}
"""What the example before has taken away."""
FILES: Final = {
    "orders.toml": '[[topics]]\nname = "orders"\n[[messages]]\ntopic = "orders"\nbody = "hello"\n'
    '[[messages]]\ntopic = "%DLQ%billing"\nbody = "dead"\norigin = "orders"\n'
    '[[offsets]]\ngroup = "billing"\ntopic = "orders"\noffset = 0\n',
    "cluster.toml": "[cluster]\nbrokers = 1\n[broker]\ndefault_topic_queue_nums = 8\n",
    "broker.conf": "brokerName=broker-a\nnamesrvAddr=127.0.0.1:9876\n",
    "namesrv.conf": "listenPort=9876\n",
    "controller.conf": "controllerDLegerPeers=n0-127.0.0.1:9877\ncontrollerDLegerSelfId=n0\n",
    "schemas.json": '{"orders": {"type": "JSON", "schema": {"type": "object", '
    '"properties": {"id": {"type": "integer"}}}}}',
    "faults.toml": '[[faults]]\ndo = "delay"\ncode = "SEND_MESSAGE"\ndelay_ms = 20\n',
}


def commands() -> dict[str, str]:
    """The help text of each command, by its words."""
    return dict(_below(typer.main.get_command(make_app()), []))


def _below(command: Any, words: list[str]) -> Iterator[tuple[str, str]]:
    if hasattr(command, "commands"):
        for name, each in command.commands.items():
            yield from _below(each, [*words, name])
    else:
        yield " ".join(words), command.help or ""


def examples(help_text: str) -> list[str]:
    """The command lines in a help text."""
    return EXAMPLE.findall(re.sub(r" *\\\n +", " ", help_text.replace("\b", "")))


def why_not(typed: str) -> str:
    """Why an example is not run; empty if it is."""
    return next((why for start, why in NOT_RUN.items() if re.match(start, typed)), "")


class QuickReader(Reader):
    """Runs what needs no shell in a fork of this process."""

    def _run(self, typed: str) -> str:
        wanted = next((n for start, n in STATUS.items() if typed.startswith(start)), 0)
        words = shlex.split(typed)
        if words[0] != "pocketmq" or re.search(r"[|&><~$;]", typed.replace("'%", "")):
            return super()._run(f"{typed}  # exit status {wanted}")
        with TemporaryFile("w+", errors="replace") as output:  # a pipe may be held by who goes on
            if not (pid := os.fork()):
                self._child(words[1:], output.fileno())
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            output.seek(0)
            printed = output.read()
        assert status == wanted, f"$ {typed}\nended with status {status}: {printed}"
        return printed

    def _child(self, words: list[str], output: int) -> NoReturn:
        status = 99
        try:
            answer, says = os.pipe()
            os.write(says, b"y\n")  # to whoever asks
            os.close(says)
            os.dup2(answer, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(self._where)
            signal.alarm(round(LIMIT_S))  # whoever does not end is ended
            os.environ.clear()
            os.environ.update(self._environment)
            status = main(words)
        finally:
            if status == 99:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


def follow(world: World, folder: Path) -> None:
    """Type the examples of a world's commands."""
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    texts = commands()
    reader = QuickReader(folder)
    failed: list[str] = []
    try:
        for typed in world.before:
            reader.type(Line(typed, []))
        for command in world.commands:
            for typed in examples(texts[command]):
                if why_not(typed):
                    continue
                try:
                    if before := FIRST.get(typed):
                        reader.type(Line(before, []))
                    began = SystemClock().monotonic()
                    reader.type(Line(typed, []))
                    print(f"{SystemClock().monotonic() - began:6.1f} s  {typed}", flush=True)
                except AssertionError as exc:
                    failed.append(str(exc))
                if command in ("up", "broker", "proxy", "nameserver", "controller"):
                    if "--wait-ready" in typed:
                        reader.type(Line("pocketmq down", []))
                    if not re.match(r"pocketmq nameserver$", typed):
                        reader.end(typed)
    finally:
        reader.close()
    assert not failed, "\n".join(failed)


if __name__ == "__main__":
    if "--own-network" in sys.argv:
        use_own_network()
    with nothing_left():
        follow(WORLDS[int(sys.argv[1])], Path(sys.argv[2]))
