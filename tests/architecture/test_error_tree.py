"""Errors cross processes (worker pools, Spark): each comes whole out of a pickle."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import re
import types
import typing
from pathlib import Path

import pytest

from pocketmq.runtime.errors import PocketMQError

ROOT = Path(__file__).resolve().parents[2]


def every_error() -> list[type[PocketMQError]]:
    """Each class of the tree, in whatever folder it is declared."""
    for path in ROOT.glob("*/pocketmq/**/*.py"):
        if re.search(r"^class \w+(Error|Fault)\(", path.read_text(), re.MULTILINE):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts[1:])
            importlib.import_module(module.removesuffix(".__init__"))
    found: set[type[PocketMQError]] = set()
    waiting = [PocketMQError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("pocketmq."):
            found.add(kind)
    return sorted(found, key=lambda kind: f"{kind.__module__}.{kind.__qualname__}")


def sample(kind: object) -> object:
    """Some value of an annotated type."""
    inner = typing.get_args(kind)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return sample(inner[0])
    if inner:
        return (sample(inner[0]),)
    values: dict[object, object] = {int: 7, float: 1.5, bool: True, Path: Path("/some/file")}
    return values.get(kind, "word")


def made(kind: type[PocketMQError]) -> PocketMQError:
    """One of its errors, with all its facts given."""
    if kind.__init__ is Exception.__init__:
        return kind("a message")
    hints = typing.get_type_hints(kind.__init__)
    by_place, by_name = [], {}
    for each in inspect.signature(kind).parameters.values():
        if each.kind is each.KEYWORD_ONLY:
            by_name[each.name] = sample(hints[each.name])
        else:
            by_place.append(sample(hints[each.name]))
    return kind(*by_place, **by_name)


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_an_error_comes_whole_out_of_a_pickle_and_a_copy(kind: type[PocketMQError]) -> None:
    error = made(kind)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_the_tree_is_found_in_every_folder_that_declares_errors() -> None:
    folders = {kind.__module__.split(".")[1] for kind in every_error()}
    assert folders >= {"runtime", "protocol", "broker", "client", "pipeline", "cluster"}
