"""Each command of `pocketmq pipeline` is also a typed function of `pocketmq.pipeline.jobs`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest
import typer

from pocketmq.cluster.cli.main import make_app
from pocketmq.pipeline import jobs
from pocketmq.pipeline.jobs.on_spark import chosen_topics
from pocketmq.pipeline.jobs.schemas.decode import table_name
from pocketmq.runtime.errors import CallerError


def commands() -> list[str]:
    (group,) = (each for each in make_app().registered_groups if each.name == "pipeline")
    assert isinstance(group.typer_instance, typer.Typer)
    return [str(each.name) for each in group.typer_instance.registered_commands]


@pytest.mark.parametrize("command", commands())
def test_a_command_has_a_typed_function_of_its_name(command: str) -> None:
    function = getattr(jobs, command.replace("-", "_"))
    assert inspect.isfunction(function)
    said = inspect.signature(function)
    assert said.return_annotation not in (inspect.Signature.empty, "Any", "object")
    assert all(each.annotation != inspect.Parameter.empty for each in said.parameters.values())
    assert inspect.getdoc(function)


def test_importing_a_module_of_the_package_hides_no_function() -> None:
    for each in pkgutil.iter_modules(jobs.__path__):
        importlib.import_module(f"{jobs.__name__}.{each.name}")
    for command in commands():
        assert inspect.isfunction(getattr(jobs, command.replace("-", "_")))


JSON = '{"clicks": [{"type": "JSON", "schema": {"properties": {"id": {"type": "integer"}}}},'
"""A registry's file up to the second version."""


def registry(folder: Path, kind: str) -> Path:
    path = folder / "schemas.json"
    second = f'{{"type": "JSON", "schema": {{"properties": {{"id": {{"type": "{kind}"}}}}}}}}'
    path.write_text(f"{JSON} {second}]}}")
    return path


def test_schema_check_gives_the_misfits_of_a_topics_versions(tmp_path: Path) -> None:
    checked = jobs.schema_check("clicks", str(registry(tmp_path, "integer")))
    assert (checked.versions, checked.misfits) == (2, [])
    checked = jobs.schema_check("clicks", str(registry(tmp_path, "string")), mode="full")
    assert [(each.reader, each.writer) for each in checked.misfits] == [(2, 1), (1, 2)]


def test_schema_check_says_which_topic_has_no_schema(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match=r"no schema of topic 'orders'"):
        jobs.schema_check("orders", str(registry(tmp_path, "integer")))


def test_flights_runs_the_job_that_its_arguments_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[tuple[jobs.FlightsJob, bool]] = []

    def run(job: jobs.FlightsJob, *, follow: bool, **_: object) -> dict[str, object]:
        ran.append((job, follow))
        return {}

    monkeypatch.setattr(jobs.FlightsJob, "run", run)
    options = {"topic": "in", "to_topic": "out", "window": "2 hours", "watermark": "3 days"}
    assert jobs.flights("here:1", str(tmp_path), follow=True, **options) == {}
    assert ran == [(jobs.FlightsJob("here:1", tmp_path, **options), True)]


def test_a_source_that_is_topics_takes_no_others() -> None:
    assert chosen_topics("topic:a, b", []) == chosen_topics("topic:a,b", ["b", "a"]) == ["a", "b"]
    for named in (["c"], ["a"]):
        with pytest.raises(CallerError, match="already names the topics to read"):
            jobs.schema("topic:a,b", "", "out", topics=named, envelope=True)


def test_no_message_is_called_as_another_one_with_a_number() -> None:
    assert table_name("t", "a~2") != table_name("t", "a", 1) == "t~a~2"
