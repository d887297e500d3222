"""JSON schemas: whether bodies fit them, and what they say, with the schemas they refer to.

A schema that names no draft is read as draft 7, as Confluent's clients write it. A `$ref` leads
into the schema itself or to one of its references; nothing else is fetched.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin

from pocketmq.pipeline.jobs.schemas.decoders import BadBodyError, Decoder
from pocketmq.pipeline.jobs.schemas.registry import Schema
from pocketmq.runtime.errors import CallerError, MissingToolError

MOST_STEPS: Final = 100
"""So many `$ref` may lead to each other before the last one says something."""


def json_schema(schema: Schema) -> JsonSchema:
    """A schema with those that it refers to.

    Raises:
        CallerError: It is none.
        MissingToolError: `jsonschema` is not installed.
    """
    return _json_schema(schema.text, tuple(schema.needed().items()))


@lru_cache(maxsize=64)
def _json_schema(text: str, needed: tuple[tuple[str, str], ...]) -> JsonSchema:
    if importlib.util.find_spec("jsonschema") is None:
        raise MissingToolError("jsonschema", "JSON schemas", "pip install 'pocketmq[schema]'")
    return JsonSchema(_read(text), {name: _read(each) for name, each in needed})


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise CallerError(f"no JSON schema: {exc}") from exc


class Part(NamedTuple):
    """A schema, or one within another."""

    said: Any
    """Its JSON: an object, or true or false."""
    resolver: Any
    """Knows where a `$ref` in it leads; of `referencing`."""

    def word(self, name: str) -> Any:
        """What stands under a word of the language; None if nothing does."""
        return self.said.get(name) if isinstance(self.said, dict) else None

    def inner(self, said: Any) -> Part:
        """A schema that stands in this one, or what that refers to.

        Raises:
            CallerError: It refers to nothing.
        """
        return _followed(Part(said, self.resolver))

    def properties(self) -> Iterator[tuple[str, Part]]:
        """The schemas of an object's fields."""
        found = self.word("properties")
        for name, said in found.items() if isinstance(found, dict) else ():
            yield name, self.inner(said)


class JsonSchema:
    """One schema.

    Args:
        said: Its JSON.
        references: The JSON of those that it refers to, by name.

    Raises:
        CallerError: It is none.
    """

    def __init__(self, said: Any, references: dict[str, Any]) -> None:
        import jsonschema
        import referencing
        from jsonschema.validators import validator_for
        from referencing.jsonschema import DRAFT7

        own_id = said.get("$id", "") if isinstance(said, dict) else ""
        try:
            kind = validator_for(said, default=jsonschema.Draft7Validator)
            resources = {
                uri: referencing.Resource.from_contents(each, default_specification=DRAFT7)
                for name, each in references.items()
                for uri in (name, urljoin(own_id, name))
            }
            root = referencing.Resource.from_contents(said, default_specification=DRAFT7)
            registry = referencing.Registry().with_resources(resources.items())
            kind.check_schema(said)
        except (jsonschema.SchemaError, RecursionError, TypeError, ValueError) as exc:
            reason = getattr(exc, "message", str(exc))
            raise CallerError(f"no JSON schema: {reason}") from exc
        self._validator = kind(said, registry=registry)
        self._root = Part(said, registry.resolver_with_root(root))

    @property
    def root(self) -> Part:
        """The whole schema, or what it refers to.

        Raises:
            CallerError: It refers to nothing.
        """
        return _followed(self._root)

    def decoder(self) -> Decoder:
        """Decodes bodies, which are objects."""
        return self._decode

    def _decode(self, body: bytes) -> dict[str, Any]:
        found = object_of(body)
        problem = self._problem(found)
        if problem is not None:
            raise BadBodyError(
                f"{problem.json_path} does not fit `{problem.validator}`: {problem.message[:200]}"
            )
        return found

    def _problem(self, found: Any) -> Any:
        from jsonschema.exceptions import best_match
        from referencing.exceptions import Unresolvable

        try:
            return best_match(self._validator.iter_errors(found))
        except Unresolvable as exc:
            raise _leads_nowhere(exc.ref) from exc
        except RecursionError as exc:
            raise BadBodyError("it or its schema is nested too deeply") from exc


def object_of(body: bytes) -> dict[str, Any]:
    """The object that a body is as JSON.

    Raises:
        BadBodyError: It is none.
    """
    try:
        found = json.loads(body)
    except ValueError as exc:
        raise BadBodyError(f"no JSON: {exc}") from exc
    except RecursionError as exc:
        raise BadBodyError("it is nested too deeply") from exc
    if not isinstance(found, dict):
        raise BadBodyError(f"it is {type(found).__name__} and no object")
    return found


def _followed(part: Part) -> Part:
    from referencing.exceptions import Unresolvable

    said, resolver = part
    for _ in range(MOST_STEPS):
        ref = said.get("$ref") if isinstance(said, dict) else None
        if not isinstance(ref, str):
            return Part(said, resolver)
        try:
            found = resolver.lookup(ref)
        except Unresolvable as exc:
            raise _leads_nowhere(ref) from exc
        said, resolver = found.contents, found.resolver
    raise CallerError(f"the JSON schema refers to {ref!r}, which refers to itself")


def _leads_nowhere(ref: str) -> CallerError:
    return CallerError(
        f"the JSON schema refers to {ref!r}, which is neither in it nor among its references"
    )
