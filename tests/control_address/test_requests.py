"""The control address over HTTP, as any language asks it."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from starlette.routing import Route

from pocketmq.client import Message
from pocketmq.cluster.control_address.app import MAX_BODY_BYTES, make_app
from pocketmq.cluster.control_address.client import ControlClient
from pocketmq.cluster.control_address.declarations import Health, Seed, SeedOffset
from pocketmq.cluster.control_address.server import ControlServer
from pocketmq.cluster.http_server.guard import Guard
from pocketmq.runtime.errors import PeerError
from pocketmq.testing import Cluster, start_cluster
from support.eventually import PATIENCE_S


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster(clock="manual") as started:
        yield started


def ask(
    cluster: Cluster,
    method: str,
    path: str,
    question: object = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, Any]:
    return ask_url(cluster.control_url, method, path, question, headers)


def ask_url(
    url: str, method: str, path: str, question: object, headers: dict[str, str] | None
) -> tuple[int, Any]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=200)
    body = question if isinstance(question, bytes) else json.dumps(question).encode()
    connection.request(method, path, body if question is not None else None, headers or {})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    kind = response.headers.get("content-type", "")
    return response.status, json.loads(content) if "json" in kind else content.decode()


def test_a_topic_is_created_filled_read_and_deleted(cluster: Cluster) -> None:
    status, topic = ask(cluster, "POST", "/topics", {"name": "orders", "queues": 2})
    assert (status, topic["messages"], len(topic["queues"])) == (200, 0, 2)
    for number in range(5):
        wanted = {"topic": "orders", "body": f"order {number}", "tag": "new", "key": str(number)}
        status, stored = ask(cluster, "POST", "/messages", wanted)
        assert (status, stored["broker"]) == (200, "broker-a")
    status, found = ask(cluster, "GET", "/messages?topic=orders&limit=3")
    assert [each["body"] for each in found] == ["order 2", "order 3", "order 4"]
    assert (found[0]["tag"], found[0]["key"]) == ("new", "2")
    assert ask(cluster, "GET", "/topics/orders")[1]["messages"] == 5
    assert [each["name"] for each in ask(cluster, "GET", "/topics")[1]] == ["orders"]
    assert ask(cluster, "DELETE", "/topics/orders")[0] == 200
    assert ask(cluster, "GET", "/topics/orders") == (
        400,
        {"error": "there is no topic 'orders'; create it with POST /topics"},
    )


def test_dead_letters_are_listed_and_sent_to_their_topics_again(cluster: Cluster) -> None:
    assert ask(cluster, "GET", "/groups/collectors/dead-letters") == (200, [])
    status, refused = ask(cluster, "POST", "/groups/collectors/resend", {})
    assert (status, "'collectors' has no dead letters" in refused["error"]) == (400, True)
    ask(cluster, "POST", "/topics", {"name": "bills", "queues": 1})
    dead = [
        {"topic": "%DLQ%collectors", "body": f"bill {number}", "origin": "bills", "key": "k"}
        for number in range(3)
    ]
    assert ask(cluster, "POST", "/seed", {"messages": dead})[0] == 200
    letters = ask(cluster, "GET", "/groups/collectors/dead-letters")[1]
    assert [each["body"] for each in letters] == ["bill 0", "bill 1", "bill 2"]
    one = {"ids": [letters[1]["id"]]}
    status, again = ask(cluster, "POST", "/groups/collectors/resend", one)
    assert (status, again["done"]) == (200, "1 dead letter of collectors sent again")
    assert [each["id"] for each in again["messages"]] == one["ids"]
    again = ask(cluster, "POST", "/groups/collectors/resend", {})[1]
    assert again["done"] == "3 dead letters of collectors sent again"
    found = ask(cluster, "GET", "/messages?topic=bills")[1]
    assert [each["body"] for each in found] == ["bill 1", "bill 0", "bill 1", "bill 2"]
    assert {(each["key"], each["reconsume_times"]) for each in found} == {("k", 0)}
    assert len(ask(cluster, "GET", "/groups/collectors/dead-letters")[1]) == 3, "they stay"
    status, refused = ask(cluster, "POST", "/groups/collectors/resend", {"ids": ["7F00"]})
    assert (status, "no dead letter of collectors has the id 7F00" in refused["error"]) == (
        400,
        True,
    )
    for topic in ("bills", "%DLQ%collectors"):
        assert ask(cluster, "DELETE", f"/topics/{topic.replace('%', '%25')}")[0] == 200


def test_a_topic_that_is_changed_is_told_with_the_queues_it_had(cluster: Cluster) -> None:
    _, made = ask(cluster, "POST", "/topics", {"name": "growing", "queues": 2})
    assert "queues_before" not in made, "it was not there before"
    _, changed = ask(cluster, "POST", "/topics", {"name": "growing", "queues": 3})
    assert (changed["queues_before"], len(changed["queues"])) == ({"broker-a": 2}, 3)
    status, refused = ask(cluster, "POST", "/topics", {"name": "growing", "queues": 2000})
    assert (status, "1024" in refused["error"]) == (400, True)
    assert len(ask(cluster, "GET", "/topics/growing")[1]["queues"]) == 3
    assert ask(cluster, "DELETE", "/topics/growing")[0] == 200


def test_groups_are_listed_with_members_queues_and_lag(cluster: Cluster) -> None:
    sync = cluster.sync
    topic = sync.create_topic("grouped", queues=2)
    begun = [{"group": "billing", "topic": topic, "offset": 0}]
    ask(cluster, "POST", "/seed", {"groups": [{"name": "idle"}], "offsets": begun})
    with sync.consumer("billing", topic):
        sync.group("billing").assigned(members=1, limit_s=PATIENCE_S)
        status, group = ask(cluster, "GET", "/groups/billing")
        listed = {each["group"]: each for each in ask(cluster, "GET", "/groups")[1]}
    assert status == 200
    assert (group["consume_type"], group["message_model"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    (member,) = group["members"]
    assert (member["brokers"], member["answers"]) == (["broker-a"], True)
    own = [each for each in group["queues"] if each["topic"] == topic]
    assert [(each["broker"], each["queue"]) for each in own] == [("broker-a", 0), ("broker-a", 1)]
    assert [each["owners"] for each in own] == [[member["client_id"]]] * 2
    assert {each["topic"] for each in group["subscriptions"]} == {topic, "%RETRY%billing"}
    assert listed["billing"]["members"] == group["members"]
    assert (listed["idle"]["members"], listed["idle"]["lag"]) == ([], 0)
    assert "TOOLS_CONSUMER" not in listed, "built-in groups are left out"
    # Nobody consumes any more: what is sent is the group's lag.
    with sync.producer() as producer:
        for number in range(3):
            producer.send(Message(topic, b"%d" % number))
    _, group = ask(cluster, "GET", "/groups/billing")
    assert (group["lag"], sum(each["lag"] for each in group["queues"])) == (3, 3)
    assert (group["members"], group["consume_type"]) == ([], "")
    status, answer = ask(cluster, "GET", "/groups/nobody")
    assert (status, "no broker knows group 'nobody'" in answer["error"]) == (400, True)
    ask(cluster, "POST", "/reset")


def test_every_route_is_in_the_document(cluster: Cluster) -> None:
    _, made = ask(cluster, "GET", "/openapi.json")
    documented = {
        (path, method.upper()) for path, methods in made["paths"].items() for method in methods
    }
    app = make_app(cluster.control, Guard(frozenset(), None))
    routes = [each for each in app.routes if isinstance(each, Route)]
    assert len(routes) == len(app.routes)
    answered = {
        (route.path, method) for route in routes for method in (route.methods or set()) - {"HEAD"}
    }
    # The page, and what it alone asks, is for browsers.
    assert documented == {
        (path, method) for path, method in answered if path != "/" and path.split("/")[1] != "watch"
    }


def test_ready_is_503_until_what_was_asked_for_is_there(cluster: Cluster) -> None:
    assert ask(cluster, "GET", "/healthz") == (200, {"status": "up"})
    assert ask(cluster, "GET", "/readyz") == (200, {"ready": True, "missing": []})
    status, answer = ask(cluster, "GET", "/readyz?topic=late")
    assert (status, answer["missing"]) == (503, ["topic late has no route"])
    status, answer = ask(cluster, "GET", "/readyz?group=nobody")
    assert (status, answer["ready"]) == (503, False)
    ask(cluster, "POST", "/seed", {"topics": [{"name": "late"}]})
    assert ask(cluster, "GET", "/readyz?topic=late")[0] == 200


def test_a_seed_has_dead_letters_groups_and_offsets(cluster: Cluster) -> None:
    page = (Path(__file__).parents[2] / "docs" / "control.md").read_text(encoding="utf-8")
    written = page.split("<!-- file: orders.toml -->\n```toml\n")[1].split("```")[0]
    example = msgspec.toml.decode(written, type=Seed)
    later = SeedOffset("mail", "orders", 0, queue=0)
    seed = msgspec.structs.replace(example, offsets=[*example.offsets, later])
    status, done = ask(cluster, "POST", "/seed", msgspec.to_builtins(seed))
    assert (status, done) == (200, {"topics": 1, "messages": 2, "groups": 2, "offsets": 2})
    _, dead = ask(cluster, "GET", "/messages?topic=%25DLQ%25billing")
    assert [each["body"] for each in dead] == ["a dead letter of the group billing"]
    committed = cluster.sync.group("billing").state().committed
    assert len(committed) == 8
    assert sum(committed.values()) == 1  # the end: one message is there
    assert set(cluster.sync.group("mail").state().committed.values()) == {0}
    ask(cluster, "POST", "/reset")


def test_ready_waits_for_what_is_to_be_done_before(cluster: Cluster) -> None:
    with cluster.control.before_ready("seeding is not done"):
        status, answer = ask(cluster, "GET", "/readyz")
        assert (status, answer["missing"]) == (503, ["seeding is not done"])
    assert ask(cluster, "GET", "/readyz")[0] == 200


def test_a_tests_cluster_is_not_stopped_over_http(cluster: Cluster) -> None:
    status, answer = ask(cluster, "POST", "/stop")
    assert status == 400
    assert answer["error"] == (
        "this cluster cannot be stopped here: it ends with the test that started it"
    )
    assert ask(cluster, "GET", "/readyz")[0] == 200


def test_time_is_moved_and_what_fired_is_told(cluster: Cluster) -> None:
    _, before = ask(cluster, "GET", "/clock")
    assert before["kind"] == "manual"
    first = before["next"][0]
    _, moved = ask(cluster, "POST", "/clock/next")
    assert moved["now_ms"] == first["at_ms"]
    assert moved["fired"][0]["role"] == first["role"]
    _, moved = ask(cluster, "POST", "/clock/advance", {"seconds": 30})
    moments = [each["at_ms"] for each in moved["fired"]]
    assert moments == sorted(moments)
    assert {"broker-a", "nameserver-1"} <= {each["role"] for each in moved["fired"]}
    status, answer = ask(cluster, "POST", "/clock/advance", {"to_ms": 1})
    assert (status, "cannot go back" in answer["error"]) == (400, True)


def test_a_role_is_frozen_killed_and_started_again(cluster: Cluster) -> None:
    def state() -> dict[str, str]:
        roles = ask(cluster, "GET", "/cluster")[1]["roles"]
        return {each["name"]: each["state"] for each in roles}

    assert ask(cluster, "POST", "/roles/broker-a/freeze")[0] == 200
    assert state()["broker-a"] == "frozen"
    assert ask(cluster, "GET", "/readyz") == (
        503,
        {"ready": False, "missing": ["broker-a is frozen"]},
    )
    status, answer = ask(cluster, "POST", "/roles/broker-a/freeze")
    assert (status, answer["error"]) == (
        400,
        "broker-a is frozen and cannot freeze; it is so already",
    )
    ask(cluster, "POST", "/roles/broker-a/thaw")
    ask(cluster, "POST", "/roles/broker-a/kill")
    assert state() == {"nameserver-1": "running", "broker-a": "ended"}
    ask(cluster, "POST", "/roles/broker-a/restart")
    assert ask(cluster, "GET", "/readyz")[0] == 200


@pytest.mark.parametrize(
    ("headers", "status", "said"),
    [
        ({"Host": "evil.example"}, 403, "use the host 127.0.0.1"),
        ({"Host": ""}, 403, "use the host 127.0.0.1"),
        ({"Origin": "http://evil.example"}, 403, "may not control"),
        ({"Origin": "null"}, 403, "may not control"),
        ({"Origin": "http://127.0.0.1:1"}, 403, "may not control"),
    ],
)
def test_a_page_of_somebody_else_is_refused(
    cluster: Cluster, headers: dict[str, str], status: int, said: str
) -> None:
    answer = ask(cluster, "POST", "/roles/broker-a/kill", headers=headers)
    assert answer[0] == status
    assert said in answer[1]["error"]
    assert cluster.state("broker-a") == "running"


@pytest.mark.parametrize(
    ("method", "path", "question", "said"),
    [
        ("POST", "/topics", b"{", "body is not valid for /topics"),
        ("POST", "/topics", {"nam": "x"}, "`nam`"),
        ("POST", "/topics", {"name": "a b"}, "a b"),
        ("GET", "/messages", None, "parameter topic is missing"),
        ("GET", "/messages?topic=late&limit=0", None, "write a number from 1 to 1000"),
        ("GET", "/messages?topic=late&limit=x", None, "limit is no number"),
        ("GET", "/healthz?x=1", None, "unknown parameter x"),
        ("POST", "/clock/advance", {}, "give either seconds or to_ms"),
        ("POST", "/clock/advance", {"seconds": 1e300}, "`float` <= 2678400"),
        ("POST", "/clock/advance", {"seconds": -1}, "`float` >= 0"),
        ("POST", "/clock/advance", {"to_ms": 10**18}, "at most 2678400 s (31 days) at a time"),
        ("POST", "/topics", {"name": "x", "queues": 10**9}, "`int` <= 1024"),
        ("POST", "/topics", {"name": "x", "queues": 0}, "`int` >= 1"),
        ("POST", "/roles/broker-z/kill", None, "its roles are nameserver-1, broker-a"),
        ("GET", "/watch/store?broker=broker-a&offset=x", None, "offset must be a position"),
        ("GET", "/watch/store?broker=broker-a&offset=%C2%B2", None, "offset must be a position"),
    ],
)
def test_a_wrong_question_is_answered_with_what_to_do(
    cluster: Cluster, method: str, path: str, question: object, said: str
) -> None:
    status, answer = ask(cluster, method, path, question)
    assert status == 400
    assert said in answer["error"]


@pytest.mark.parametrize(("method", "path"), [("GET", "/nothing"), ("PUT", "/topics")])
def test_what_there_is_not_is_answered_as_every_error(
    cluster: Cluster, method: str, path: str
) -> None:
    status, answer = ask(cluster, method, path)
    assert status in (404, 405)
    assert answer["error"] == (
        f"there is no {method} {path}; GET /openapi.json lists what can be asked"
    )


def test_a_body_has_a_bound(cluster: Cluster) -> None:
    status, answer = ask(cluster, "POST", "/seed", b" " * (MAX_BODY_BYTES + 1))
    assert (status, "send less" in answer["error"]) == (413, True)


def test_the_document_is_served(cluster: Cluster) -> None:
    status, made = ask(cluster, "GET", "/openapi.json")
    assert (status, made["openapi"]) == (200, "3.1.0")


def test_a_port_open_to_others_wants_a_token(cluster: Cluster) -> None:
    async def serve() -> ControlServer:
        return await ControlServer(cluster.control, port=0, token="secret").__aenter__()

    server = cluster.thread.result(serve())
    try:
        for token, status in (("", 401), ("Bearer wrong", 401), ("Bearer secret", 200)):
            headers = {"Authorization": token, "Host": "pocketmq.example"}
            assert ask_url(server.url, "GET", "/healthz", None, headers)[0] == status
    finally:
        cluster.thread.result(server.__aexit__(None, None, None))


def test_an_address_of_ipv6_is_written_with_brackets(cluster: Cluster) -> None:
    async def serve() -> ControlServer:
        return await ControlServer(cluster.control, host="::1", port=0).__aenter__()

    server = cluster.thread.result(serve())
    try:
        assert server.url == f"http://[::1]:{server.port}"
        assert ControlClient(server.url).get("/healthz", Health) == Health()
    finally:
        cluster.thread.result(server.__aexit__(None, None, None))


def test_a_taken_port_is_replaced_by_another(cluster: Cluster) -> None:
    first = ControlServer(cluster.control, port=0)
    second = ControlServer(cluster.control, port=first.port)
    assert second.port not in (0, first.port)
    first.close()
    second.close()


def test_the_examples_of_the_page_are_what_happens() -> None:
    page = (Path(__file__).parents[2] / "docs" / "control.md").read_text(encoding="utf-8")
    sessions = [each.split("```")[0] for each in page.split("```console\n")[1:]]
    steps = re.findall(r"^\$ (curl .*)\n(.*)", "".join(sessions), re.MULTILINE)
    assert len(steps) == 7
    with start_cluster() as cluster:
        for command, answer in steps:
            ran = subprocess.run(
                ["sh", "-c", command],
                capture_output=True,
                text=True,
                env=os.environ | {"POCKETMQ_CONTROL": cluster.control_url},
            )
            assert ran.stdout == answer


def test_faults_are_declared_listed_and_cleared(cluster: Cluster) -> None:
    wanted = {"do": "fail", "code": "SEND_MESSAGE", "topic": "t", "with_code": "SYSTEM_BUSY"}
    status, rule = ask(cluster, "POST", "/faults", wanted)
    assert (status, rule["code"], rule["with_code"]) == (200, 10, 2)
    status, part = ask(cluster, "POST", "/roles/broker-a/partition", {"other": "nameserver-1"})
    assert (status, part["do"], part["other"]) == (200, "partition", "nameserver-1")
    states = ask(cluster, "GET", "/faults")[1]
    assert [(each["rule"]["id"], each["fired"]) for each in states] == [
        (rule["id"], {"nameserver-1": 0, "broker-a": 0}),
        (part["id"], {}),
    ]
    assert ask(cluster, "DELETE", f"/faults/{part['id']}")[0] == 200
    assert ask(cluster, "DELETE", "/faults")[1] == {"done": "1 fault rule cleared"}
    assert ask(cluster, "GET", "/faults") == (200, [])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"do": "burn"}, "Invalid enum value 'burn'"),
        ({"do": "drop", "role": "broker-z"}, "its roles are nameserver-1, broker-a"),
        ({"do": "drop", "probability": 2}, "`float` <= 1"),
        ({"do": "delay"}, "the fault delay needs a delay"),
    ],
)
def test_a_wrong_fault_is_refused(cluster: Cluster, rule: object, said: str) -> None:
    status, answer = ask(cluster, "POST", "/faults", rule)
    assert (status, said in answer["error"]) == (400, True), answer


def test_snapshots_are_saved_listed_and_loaded(cluster: Cluster) -> None:
    ask(cluster, "POST", "/topics", {"name": "kept"})
    status, info = ask(cluster, "POST", "/snapshots", {"name": "one"})
    assert (status, info["name"], info["roles"]) == (200, "one", ["nameserver-1", "broker-a"])
    assert ask(cluster, "GET", "/snapshots")[1] == [info]
    assert ask(cluster, "POST", "/reset") == (200, {"done": "the cluster is empty"})
    assert ask(cluster, "GET", "/topics")[1] == []
    assert ask(cluster, "POST", "/snapshots/one/load")[0] == 200
    assert "kept" in [each["name"] for each in ask(cluster, "GET", "/topics")[1]]
    status, answer = ask(cluster, "POST", "/snapshots", {"name": "../x"})
    assert (status, "cannot be the name of a snapshot" in answer["error"]) == (400, True)
    assert ask(cluster, "POST", "/snapshots/two/load")[0] == 400


@pytest.mark.parametrize("status", [200, 404, 503])
def test_another_program_at_the_address_is_told_in_one_line(status: int) -> None:
    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<!DOCTYPE HTML>\n<html>\n")

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with http.server.HTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.handle_request).start()
        client = ControlClient(f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(PeerError, match="another program answers there, with status") as caught:
            client.get("/healthz", Health)
    assert "\n" not in str(caught.value)
    assert "--control" in str(caught.value)
