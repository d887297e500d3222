"""Who may ask what at the control address: foreign pages, users of the brokers; and no markup."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from starlette.routing import Route

from pocketmq.client import Message
from pocketmq.cluster.control_address.app import make_app
from pocketmq.cluster.control_address.server import ControlServer
from pocketmq.cluster.http_server.guard import Guard
from pocketmq.testing import Cluster, start_cluster

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"
PLACES = {"topic": "orders", "group": "billing", "role": "broker-a", "id": "r1", "name": "kept"}
USERS = {"shop": "s3cret"}
SUPER = {"admin": "0ther"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str


def ask(url: str, method: str, path: str, headers: dict[str, str], body: str = "") -> Answer:
    """Ask, and read a few bytes at most of what never ends."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=200)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            if value:  # an empty Host is none at all
                connection.putheader(name, value)
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body.encode() or None)
        response = connection.getresponse()
        endless = response.headers.get("content-type", "").startswith("text/event-stream")
        content = response.read1(64) if endless else response.read()
        found = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, found, content.decode("utf-8", "replace"))
    finally:
        connection.close()


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def routes_of(cluster: Cluster) -> list[tuple[str, str]]:
    """Method and path of all that is answered; names are those of things that are there."""
    app = make_app(cluster.control, Guard(frozenset(), None))
    found = []
    for route in app.routes:
        assert isinstance(route, Route)
        path = route.path
        for place, name in PLACES.items():
            path = path.replace("{" + place + "}", name)
        found += [(method, path) for method in sorted((route.methods or set()) - {"HEAD"})]
    assert len(found) > 60
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster(clock="manual") as started:
        started.sync.create_topic("orders")
        yield started


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    with start_cluster(users=USERS, super_users=SUPER, acl=[("shop", "*", "All")]) as started:
        started.sync.create_topic("orders")
        yield started


FOREIGN = {
    "a foreign host": {"Host": "evil.example"},
    "no host": {"Host": ""},
    "a foreign origin": {"Origin": "http://evil.example"},
    "the origin of a file": {"Origin": "null"},
    "the origin of another port": {"Origin": "http://127.0.0.1:1"},
    "both foreign": {"Host": "evil.example", "Origin": "http://evil.example"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
def test_no_route_and_no_stream_answers_a_foreign_page(
    cluster: Cluster, headers: dict[str, str]
) -> None:
    before = cluster.roles, cluster.sync.time_ms, cluster.control.faults.rules
    for method, path in routes_of(cluster):
        answer = ask(cluster.control_url, method, path, headers)
        assert answer.status in (400, 403), (method, path)  # 400: HTTP itself wants a Host
        assert "access-control-allow-origin" not in answer.headers, (method, path)
        assert EVIL not in answer.body
    assert before == (cluster.roles, cluster.sync.time_ms, cluster.control.faults.rules)
    assert {cluster.state(each) for each in cluster.roles} == {"running"}


def test_each_route_of_reading_answers_this_machine_without_an_origin(cluster: Cluster) -> None:
    for method, path in routes_of(cluster):
        if method == "GET":
            assert ask(cluster.control_url, method, path, {}).status in (200, 307, 400), path


def test_no_route_answers_without_the_token(cluster: Cluster) -> None:
    async def serve() -> ControlServer:
        return await ControlServer(cluster.control, port=0, token="secret").__aenter__()

    server = cluster.thread.result(serve())
    try:
        for method, path in routes_of(cluster):
            for given in ({}, {"Authorization": "Bearer wrong"}, basic("x", "secret")):
                assert ask(server.url, method, path, given).status == 401, (method, path)
            foreign = {"Authorization": "Bearer secret", "Origin": "http://evil.example"}
            assert ask(server.url, method, path, foreign).status == 403, (method, path)
    finally:
        cluster.thread.result(server.__aexit__(None, None, None))


def test_what_changes_a_secured_cluster_needs_a_super_user(secured: Cluster) -> None:
    reads = {
        "/messages", "/watch/store", "/watch/messages", "/watch/export",
        "/groups/billing/dead-letters",
    }  # fmt: skip  # what rules protect
    wrong: list[dict[str, str]] = [
        {},
        basic("shop", "s3cret"),  # a normal user, whatever its rules
        basic("admin", "wrong"),
        basic("nobody", "x"),
        basic("pocketmq", "wrong"),
        {"Authorization": "Basic ?"},
        {"Authorization": "Basic " + base64.b64encode(b"admin").decode()},
    ]
    for method, path in routes_of(secured):
        for given in wrong:
            answer = ask(secured.control_url, method, path, given)
            if method == "GET" and path not in reads:
                assert answer.status != 401, path
            else:
                assert answer.status == 401, (method, path, given)
                assert answer.headers["www-authenticate"].startswith("Basic "), path
    assert {secured.state(each) for each in secured.roles} == {"running"}
    own = secured.super_user
    assert own is not None
    for user in (basic("admin", "0ther"), basic(own.access_key, own.secret_key)):
        made = ask(secured.control_url, "POST", "/topics", user, '{"name": "made"}')
        assert made.status == 200, made
    sent = ask(secured.control_url, "POST", "/messages", user, '{"topic": "made", "body": "x"}')
    assert sent.status == 200, sent
    read = ask(secured.control_url, "GET", "/messages?topic=made", user)
    assert [each["body"] for each in json.loads(read.body)] == ["x"]
    line = ask(secured.control_url, "GET", "/watch/export?topic=made", user)
    assert json.loads(line.body)["body"] == "x"


def test_a_killed_broker_is_restarted_by_the_clusters_own_super_user(secured: Cluster) -> None:
    own = secured.super_user
    assert own is not None
    secured.sync.kill("broker-a")
    refused = ask(secured.control_url, "POST", "/roles/broker-a/restart", basic("admin", "0ther"))
    assert (refused.status, "no master answers" in refused.body) == (502, True)
    keys = basic(own.access_key, own.secret_key)
    assert ask(secured.control_url, "POST", "/roles/broker-a/restart", keys).status == 200


def test_a_token_and_a_super_user_are_sent_together(secured: Cluster) -> None:
    async def serve() -> ControlServer:
        return await ControlServer(secured.control, port=0, token="secret").__aenter__()

    server = secured.thread.result(serve())
    try:
        cookie = {"Cookie": "pocketmq_token=secret"}
        body = '{"name": "together"}'
        both = ask(server.url, "POST", "/topics", cookie | basic("admin", "0ther"), body)
        assert both.status == 200
        for one in (cookie, basic("admin", "0ther"), {"Authorization": "Bearer secret"}):
            assert ask(server.url, "POST", "/topics", one, body).status == 401
    finally:
        secured.thread.result(server.__aexit__(None, None, None))


def test_what_clients_chose_is_no_page(cluster: Cluster) -> None:
    message = Message("orders", EVIL.encode(), tags="<b>", keys=EVIL.replace(" ", ""))
    message.put_user_property("p", EVIL)
    with (
        cluster.sync.producer() as producer,
        cluster.sync.consumer("billing", "orders", instance_name=EVIL),
    ):
        producer.send(message)
        shown: Callable[[str], Answer] = lambda path: ask(cluster.control_url, "GET", path, {})  # noqa: E731
        assert "<script>" in shown("/messages?topic=orders").body, "JSON has it as it is"
        for method, path in routes_of(cluster):
            if method != "GET":
                continue
            query = {"/messages": "?topic=orders", "/watch/store": "?broker=broker-a&offset=0"}
            answer = shown(path + query.get(path, ""))
            assert answer.headers["x-content-type-options"] == "nosniff", path
            kind = answer.headers.get("content-type", "").split(";")[0]
            if kind == "text/html":
                assert path in ("/watch", "/watch/index.html"), path
                assert "alert(1)" not in answer.body, path
                assert "script-src 'self'" in answer.headers["content-security-policy"], path
            elif answer.status == 200:
                assert kind in (
                    *("application/json", "text/event-stream", "text/plain"),
                    *("text/javascript", "text/css"),
                ), path
        lost = shown(f"/{EVIL.replace(' ', '')}")
        assert (lost.status, lost.headers["content-type"]) == (404, "application/json")
