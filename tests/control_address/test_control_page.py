"""What the tables of `docs/control.md` say; `test_pages_as_typed.py` types what it shows."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from pocketmq.operation.faults.rule import Deed
from pocketmq.testing import Cluster, start_cluster

PAGE = (Path(__file__).parents[2] / "docs" / "control.md").read_text(encoding="utf-8")

EXAMPLES: dict[str, Any] = {
    "POST /topics": {"name": "bills", "queues": 1},
    "POST /messages": {"topic": "bills", "body": "bill 1"},
    "POST /groups/{group}/resend": {"ids": []},
    "POST /clock/advance": {"seconds": 126},
    "POST /clock/run": {"speed": 60},
    "POST /roles/{role}/partition": {"other": "nameserver-1"},
    "POST /faults": {"do": "lose", "code": "HEART_BEAT"},
    "POST /snapshots": {"name": "kept"},
    "POST /seed": {"topics": [{"name": "seeded"}]},
}
QUERIES = {"GET /readyz": "?topic=bills", "GET /messages": "?topic=bills&limit=1"}
PLACES = {"{topic}": "bills", "{group}": "billing", "{role}": "broker-a", "{name}": "kept"}
ELSEWHERE = {"POST /stop", "GET /events"}
"""Of `pocketmq up` only; and it never ends."""

FIELDS: dict[str, Any] = {
    "role": "broker-a", "code": "SEND_MESSAGE", "topic": "orders", "group": "billing",
    "nth": 3, "times": 2, "probability": 0.5, "seed": 7,
}  # fmt: skip
NEEDS: dict[str, dict[str, Any]] = {
    "fail": {"with_code": "SYSTEM_BUSY", "remark": "later"},
    "delay": {"delay_ms": 20},
    "slow-fsync": {"delay_ms": 20},
    "partition": {"role": "broker-a", "other": "clients"},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster(clock="manual") as started:
        yield started


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def asked(method: str, url: str, body: str | None) -> tuple[int, str]:
    data = None if body is None else body.encode()
    request = urllib.request.Request(url, data, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_each_request_of_the_table_is_answered(cluster: Cluster) -> None:
    rows = re.findall(r"^\| (`.*`) \|", section("What can be asked"), re.MULTILINE)
    requests = [each for row in rows for each in re.findall(r"`([A-Z]+ [^`]+)`", row)]
    assert len(requests) > 30
    undone = {"DELETE /topics/{topic}", "POST /reset", "DELETE /faults"}  # after the others
    places = dict(PLACES)
    cluster.sync.create_topic("bills", queues=1)
    dead = {"topic": "%DLQ%billing", "body": "bill 0", "origin": "bills"}
    groups = json.dumps({"groups": [{"name": places["{group}"]}], "messages": [dead]})
    assert asked("POST", f"{cluster.control_url}/seed", groups)[0] == 200
    wanted = [each for each in requests if each not in ELSEWHERE]
    for request in sorted(wanted, key=lambda each: each in undone):
        method, path = request.split()
        for place, name in places.items():
            path = path.replace(place, name)
        question = EXAMPLES.get(request)
        body = None if question is None else json.dumps(question)
        url = cluster.control_url + path + QUERIES.get(request, "")
        status, answer = asked(method, url, body)
        assert status == 200, (request, answer)
        if request == "POST /faults":
            places["{id}"] = json.loads(answer)["id"]
        if request.startswith("POST /roles/{role}/partition"):
            asked("DELETE", f"{cluster.control_url}/faults/{json.loads(answer)['id']}", None)


def test_the_rules_of_the_tables_are_taken(cluster: Cluster) -> None:
    kinds, fields = re.findall(
        r"^\| `do` .*?\n\n|^\| field .*?\n\n", PAGE, re.MULTILINE | re.DOTALL
    )
    named = re.findall(r"^\| `([a-z-]+)` \| ", kinds, re.MULTILINE)[1:]
    assert set(named) == set(get_args(Deed))
    of_rows = [row.split("|")[1] for row in fields.splitlines()[2:] if row]
    assert set(re.findall(r"`(\w+)`", " ".join(of_rows))) == set(FIELDS)
    wanted = [{"do": kind, **NEEDS.get(kind, {})} for kind in named]
    for rule in [*wanted, {"do": "drop", **FIELDS}]:
        status, answer = asked("POST", f"{cluster.control_url}/faults", json.dumps(rule))
        assert status == 200, (rule, answer)
        asked("DELETE", f"{cluster.control_url}/faults", None)


def test_an_event_has_the_shape_that_the_page_shows(cluster: Cluster) -> None:
    shown = section("Events").split("```text\n")[1].split("```")[0].splitlines()
    keys = re.findall(r'"(\w+)":', shown[2])
    host, port = cluster.control_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=100) as connection:
        connection.sendall(f"GET /events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        lines = connection.makefile("r", encoding="utf-8")
        assert "200" in lines.readline()
        assert ": events\n" in lines, "from here on it is told what happens"
        cluster.sync.create_topic("watched")
        with cluster.sync.consumer("watchers", "watched"):
            for line in lines:
                if line == "event: member-joined\n":
                    told = lines.readline()
                    break
    assert list(json.loads(told.removeprefix("data: ")))[: len(keys)] == keys
