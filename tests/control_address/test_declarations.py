"""The declarations, the code that does them and the document made from them agree."""

from __future__ import annotations

import inspect
import json
import socket
from pathlib import Path

import msgspec
import pytest

from pocketmq.cluster.control_address import client
from pocketmq.cluster.control_address.client import ControlClient, ControlFile
from pocketmq.cluster.control_address.declarations import OPERATIONS, Operation, Seed
from pocketmq.cluster.control_address.declared_documents import DOCUMENTS
from pocketmq.cluster.control_address.openapi import document
from pocketmq.cluster.control_address.operations import Operations
from pocketmq.cluster.control_address.seeds import read_seed
from pocketmq.runtime.errors import CallerError, ConfigError
from support.ipv6 import needs_ipv6

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_each_operation_is_done_as_it_is_declared(operation: Operation) -> None:
    signature = inspect.signature(getattr(Operations, operation.name), eval_str=True)
    answer = operation.answer
    assert signature.return_annotation == (list[answer] if operation.is_list else answer)  # type: ignore[valid-type]
    question = signature.parameters.get("question")
    assert (question.annotation if question else None) == operation.question
    in_path = {each.name for each in operation.parameters if each.place == "path"}
    assert in_path == {part[1:-1] for part in operation.path.split("/") if part.startswith("{")}


def test_the_document_has_what_is_no_json_of_a_declared_type() -> None:
    paths = document("1")["paths"]
    assert {each.path: set(paths[each.path]) for each in DOCUMENTS} == {
        "/metrics": {"get"}, "/events": {"get"}, "/openapi.json": {"get"},
    }  # fmt: skip
    answers = {each.path: paths[each.path]["get"]["responses"]["200"] for each in DOCUMENTS}
    assert {path: list(answer["content"]) for path, answer in answers.items()} == {
        "/metrics": ["text/plain"],
        "/events": ["text/event-stream"],
        "/openapi.json": ["application/json"],
    }


def test_the_document_names_every_operation_and_resolves_every_reference() -> None:
    made = document("1")
    operations = {(method.upper(), path) for path, each in made["paths"].items() for method in each}
    declared = {(each.method, each.path) for each in OPERATIONS}
    assert operations == declared | {("GET", each.path) for each in DOCUMENTS}
    text = json.dumps(made)
    wanted = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert wanted <= made["components"]["schemas"].keys()


def test_the_page_has_every_operation() -> None:
    page = (DOCS / "control.md").read_text(encoding="utf-8")
    for each in OPERATIONS:
        assert f"`{each.method} {each.path}`" in page, each.path


def test_a_seed_is_read_from_toml_and_json(tmp_path: Path) -> None:
    toml, other = tmp_path / "seed.toml", tmp_path / "seed.json"
    toml.write_text('[[topics]]\nname = "a"\nqueues = 2\n[[messages]]\ntopic = "a"\nbody = "b"\n')
    other.write_bytes(msgspec.json.encode(read_seed(toml)))
    assert read_seed(other) == read_seed(toml)
    assert read_seed(toml).topics[0].queues == 2
    lines = tmp_path / "seed.jsonl"
    lines.write_text('{"topic": "a", "body": "b"}\n{"topic": "a", "body": "c", "tag": "new"}\n')
    assert [each.body for each in read_seed(lines).messages] == ["b", "c"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('[[topics]]\nnam = "a"\n', "unknown field `nam`"),
        ("[[topics", "seed.toml"),
        ("[[topics]]\nname = 3\n", r"Expected `str`"),
    ],
)
def test_a_wrong_seed_is_refused_in_a_sentence(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "seed.toml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=said):
        read_seed(path)
    with pytest.raises(ConfigError, match=r"none\.toml"):
        read_seed(tmp_path / "none.toml")


def test_an_empty_seed_is_one() -> None:
    assert msgspec.json.decode(b"{}", type=Seed) == Seed()


def test_a_data_folder_without_a_cluster_is_said(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="no cluster runs in this folder"):
        ControlClient.found(None, tmp_path)
    (tmp_path / "control.json").write_text("{")
    with pytest.raises(CallerError, match="remove this file"):
        ControlClient.found(None, tmp_path)
    with pytest.raises(CallerError, match="write http://host:port"):
        ControlClient("ftp://x")


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://a:b", "http://[::1", "a:1", ""])
def test_what_is_no_control_address_is_said(url: str) -> None:
    with pytest.raises(CallerError, match=r"write http://(host:port|a:1)"):
        ControlClient(url)


def test_the_folder_that_is_named_goes_before_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = ControlFile(url="http://127.0.0.1:2", nameservers="", pid=1)
    (tmp_path / "control.json").write_bytes(msgspec.json.encode(noted))
    monkeypatch.setenv("POCKETMQ_CONTROL", "http://127.0.0.1:1")
    assert ControlClient.found(None, tmp_path).url == "http://127.0.0.1:2"
    assert ControlClient.found("http://127.0.0.1:3", tmp_path).url == "http://127.0.0.1:3"
    assert ControlClient.found(None).url == "http://127.0.0.1:1"


@needs_ipv6
def test_a_cluster_that_listens_at_ipv6_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POCKETMQ_CONTROL", raising=False)
    with socket.socket(socket.AF_INET6) as six, socket.socket() as four:
        six.bind(("::1", 0))
        six.listen()
        four.bind(("127.0.0.1", 0))  # taken, and nobody listens
        port_4, port_6 = four.getsockname()[1], six.getsockname()[1]
        monkeypatch.setattr(client, "DEFAULT_URL", f"http://127.0.0.1:{port_4}")
        monkeypatch.setattr(client, "DEFAULT_URL_6", f"http://[::1]:{port_6}")
        assert ControlClient.found(None).url == f"http://[::1]:{port_6}"
        four.listen()
        assert ControlClient.found(None).url == f"http://127.0.0.1:{port_4}"
