"""JSON schemas: whether bodies fit them, and what they say, with the schemas they refer to.

A schema that names no draft is read as draft 7, as Confluent's clients write it. A `$ref` leads
into the schema itself or to one of its references; nothing else is fetched.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import Any, Final, NoReturn
from urllib.parse import urljoin

from pocketmq.pipeline.installed import check_installed
from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError, Decoder
from pocketmq.pipeline.jobs.schemas.json_parts import Part, check_parts, leads_nowhere
from pocketmq.pipeline.jobs.schemas.json_patterns import pattern_of
from pocketmq.pipeline.jobs.schemas.json_values import text_of
from pocketmq.pipeline.jobs.schemas.json_words import Words
from pocketmq.pipeline.jobs.schemas.registry import Schema
from pocketmq.runtime.errors import CallerError

_OF_ODD_WORDS: Final = (AttributeError, RecursionError, TypeError, ValueError)
"""What its libraries raise where a word of the language has a value of another type."""


def json_schema(schema: Schema) -> JsonSchema:
    """A schema with those that it refers to.

    Raises:
        CallerError: It is none.
        MissingToolError: `jsonschema` or `jsonschema-rs` is not installed.
    """
    return _json_schema(schema.text, tuple(schema.needed().items()))


@lru_cache(maxsize=64)
def _json_schema(text: str, needed: tuple[tuple[str, str], ...]) -> JsonSchema:
    check_installed("JSON schemas", "schema", "jsonschema", "jsonschema_rs")
    return JsonSchema(_read(text), {name: _read(each) for name, each in needed})


def _read(text: str) -> Any:
    try:
        said = json.loads(text)
        json.dumps(said, ensure_ascii=False).encode()  # half a pair of surrogates names no column
    except (ValueError, RecursionError) as exc:
        raise CallerError(f"the JSON schema is not valid: {exc}") from exc
    return said


class JsonSchema:
    """One schema.

    Args:
        said: Its JSON.
        references: The JSON of those that it refers to, by name.

    Raises:
        CallerError: It is none, or one of its `$ref`s leads to none.
    """

    def __init__(self, said: Any, references: dict[str, Any]) -> None:
        import jsonschema
        from jsonschema.exceptions import best_match
        from jsonschema.validators import validator_for
        from jsonschema_specifications import REGISTRY
        from referencing.jsonschema import DRAFT7

        self._words = Words()

        def check(part: Any) -> None:
            own = validator_for(part, default=kind)
            # The schema is checked by its own meta schema, within the same limits as a body.
            self._words.work.begin(len(json.dumps(part)))
            meta = self._words.kind(own)(own.META_SCHEMA)
            error = best_match(meta.iter_errors(part))
            if error is not None:
                raise error

        try:
            kind = validator_for(said, default=jsonschema.Draft7Validator)
            check(said)
            # References may be relative to a schema's `$id`, which makes their addresses longer.
            named = _by_address(said, references)
            resources = {
                address: DRAFT7.detect(each).create_resource(each)
                for address, each in named.items()
            }
            registry = REGISTRY.with_resources(resources.items())
            language = DRAFT7.detect(said)
            resolver = registry.resolver_with_root(language.create_resource(said))
            self.whole = Part(said, resolver, language)
            """The whole schema."""
            self.behind = text_of([_definitions(said), references])
            """What `$ref`s may lead to, as a text."""
            # Regular expressions are tried now, rather than by the first body.
            for part in check_parts(self.whole, check):
                _check_patterns(part)
        except (BadBodyError, jsonschema.ValidationError, *_OF_ODD_WORDS) as exc:
            reason = getattr(exc, "message", str(exc))
            raise CallerError(f"the JSON schema is not valid: {reason}") from exc
        self._validator = self._words.kind(kind)(said, registry=registry)

    def decoder(self) -> Decoder:
        """Decodes bodies, which are objects."""
        return self._decode

    def _decode(self, body: bytes) -> dict[str, Any]:
        found = object_of(body)
        self._words.work.begin(len(body))
        problem = self._problem(found)
        if problem is not None:
            # The schema `false` has no word to name.
            word = problem.validator or "false"
            raise BadBodyError(
                f"{problem.json_path} breaks the schema's rule `{word}`: {problem.message[:200]}"
            )
        return found

    def _problem(self, found: Any) -> Any:
        from jsonschema.exceptions import best_match
        from referencing.exceptions import Unresolvable

        try:
            return best_match(self._validator.iter_errors(found))
        except Unresolvable as exc:
            raise leads_nowhere(exc.ref) from exc
        except BadBodyError:  # too much work
            raise
        except RecursionError as exc:
            raise BadBodyError("the body or its schema is nested too deeply") from exc
        except Exception as exc:  # as `multipleOf` 0.1 has of an integer of 400 digits
            raise BadBodyError(f"the body cannot be checked with its schema: {exc!r}") from exc


def _definitions(said: Any) -> Any:
    """What the `$ref`s of a schema lead to in itself: its definitions, or any of it."""
    text = json.dumps(said)
    inner = re.findall(r'"\$\w*[rR]ef": "(#[^"]*)"', text)
    # With inner `$id`s or pointers to other places, a reference may lead anywhere in the schema.
    if text.count('"$id"') > 1 or not all(
        each.startswith(("#/definitions/", "#/$defs/")) for each in inner
    ):
        return said
    return {name: said.get(name) for name in ("definitions", "$defs")} if inner else None


def _check_patterns(part: Part) -> None:
    """Check that the regular expressions of a part can be searched for; see `pattern_of`."""
    found = part.word("pattern")
    more = part.word("patternProperties")
    for pattern in [*([found] if isinstance(found, str) else []), *(more or ())]:
        pattern_of(pattern)


def _by_address(said: Any, references: dict[str, Any]) -> dict[str, Any]:
    """References by their names, and by what `$ref` makes of these in schemas with an address."""
    addresses = [*references]
    for each in (said, *references.values()):
        own = each.get("$id", each.get("id")) if isinstance(each, dict) else None
        if isinstance(own, str):
            addresses.append(own)
    found: dict[str, Any] = {}
    for name, each in references.items():
        found |= dict.fromkeys((urljoin(address, name) for address in addresses), each)
    return found | references


# -- bodies ---------------------------------------------------------------------------------------


def object_of(body: bytes) -> dict[str, Any]:
    """The object that a body is as JSON.

    Raises:
        BadBodyError: It is none.
    """
    try:
        # JSON may be UTF-16 or UTF-32, which its first bytes show.
        found = _DECODER.decode(body.decode(json.detect_encoding(body)))
    except ValueError as exc:
        raise BadBodyError(f"no JSON: {exc}") from exc
    except RecursionError as exc:
        raise BadBodyError("it is nested too deeply") from exc
    if not isinstance(found, dict):
        raise BadBodyError(f"the body must be a JSON object, but is of type {type(found).__name__}")
    return found


def _constant(text: str) -> NoReturn:
    raise ValueError(f"JSON has no {text}")


def _float(text: str) -> float:
    found = float(text)
    # 1e999 would become infinity, which JSON does not have.
    if math.isinf(found):
        raise ValueError(f"a number is too large: {text[:60]}")
    return found


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_float)
