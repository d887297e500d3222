"""Hypothesis strategies made from declarations: whatever a header or body says it can hold.

from support.declared import instances
@given(instances(PullMessageRequestHeader))
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any, TypeVar

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from msgspec import inspect

from pocketmq.operation import control, faults, grpc_ports, membership
from pocketmq.protocol import bodies, headers
from pocketmq.protocol.body import BodyStruct
from pocketmq.protocol.header import Header
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.scalars import INT64_MAX, INT64_MIN

StructT = TypeVar("StructT", bound=msgspec.Struct)

for_each_class = settings(max_examples=max(10, settings().max_examples // 2))
"""Of tests that run for each of two hundred declarations: what differs is drawn often enough."""

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Any text that UTF-8 can write."""

_EDGES = ["null", "true", "0", "", " ", "\x00", "\x01\x02", "é", "\U0001f6eb"]


@functools.cache
def instances(cls: type[StructT]) -> st.SearchStrategy[StructT]:
    """Instances of a struct with every field at any value that its declaration allows."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    required = {field.name: _values(field.type) for field in info.fields if field.required}
    optional = {field.name: _values(field.type) for field in info.fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: cls(**fields))


def _values(kind: inspect.Type) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType(ge=low, le=high):
            low, high = INT64_MIN if low is None else low, INT64_MAX if high is None else high
            edges = [each for each in (low, high, 0, -1) if low <= each <= high]
            return st.sampled_from(edges) | st.integers(low, high)
        case inspect.FloatType(gt=above, le=most):
            return st.floats(
                above, most, exclude_min=above is not None, allow_nan=False, allow_infinity=False
            )
        case inspect.StrType():
            return st.sampled_from(_EDGES) | texts
        case inspect.LiteralType(values=words):
            return st.sampled_from(words)
        case inspect.EnumType(cls=enum):
            return st.sampled_from(list(enum))
        case inspect.UnionType(types=kinds):
            return st.one_of([_values(each) for each in kinds])
        case inspect.ListType(item_type=item):
            return st.lists(_values(item), max_size=3)
        case inspect.SetType(item_type=item):
            return st.sets(_values(item), max_size=3)
        case inspect.FrozenSetType(item_type=item):
            return st.frozensets(_values(item), max_size=3)
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_values(key), _values(value), max_size=3)
        case inspect.StructType(cls=cls):
            return instances(cls)
    raise NotImplementedError(f"no strategy for {kind!r}; add it to support/declared.py")


def _subclasses(cls: type[Any]) -> list[type[Any]]:
    found = []
    for each in cls.__subclasses__():
        found += [each, *_subclasses(each)]
    return found


def _load_all(package: Any) -> None:
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)


def _declared(base: type[Any], *packages: Any) -> list[type[Any]]:
    for package in packages:
        _load_all(package)
    places = ("pocketmq.protocol.", "pocketmq.operation.")
    found = {cls for cls in _subclasses(base) if cls.__module__.startswith(places)}
    return sorted(found, key=lambda cls: cls.__name__)


HEADERS: list[type[Header]] = _declared(Header, headers, control, faults, grpc_ports, membership)
"""Every declared header, of requests and of responses."""

BODIES: list[type[msgspec.Struct]] = [
    *_declared(BodyStruct, bodies, faults, grpc_ports),
    MessageQueue,
]
"""Every declared structured body, and the queue that occurs inside many."""
