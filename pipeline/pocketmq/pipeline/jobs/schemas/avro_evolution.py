"""Why what was written with one Avro schema may not be readable with another.

Apache's `avro.compatibility` decides, and here each reason gets its field. Where it differs from
Avro's specification:

    aliases of types    one without a namespace has that of its type; they are written out here
    the type `error`    it does not know it; `cannot tell`
    unions              of two records of the reader's union that both read the writer's by name and
                        hold themselves, what stands in one that fails can count as fitting in
                        another place, too, as with Avro for Java; left as it is
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

from avro.compatibility import (
    ReaderWriterCompatibilityChecker,
    SchemaCompatibilityType,
    check_schema_names,
    lookup_writer_field,
)
from avro.errors import AvroException, AvroWarning
from avro.name import Name, Names
from avro.schema import make_avsc_object

from pocketmq.pipeline.jobs.schemas.json_evolution import Reason
from pocketmq.pipeline.jobs.schemas.registry import Schema
from pocketmq.runtime.errors import CallerError


def avro_reasons(reader: Schema, writer: Schema) -> Iterator[Reason]:
    """All of them; none if the reader reads all that the writer writes.

    Raises:
        CallerError: A schema is none.
        RecursionError: It is nested too deeply.
    """
    one, other = _parsed(reader), _parsed(writer)
    comparison = _Comparison()
    try:
        yield from comparison.reasons(one, other, "$")
    except AvroException as exc:
        yield Reason("$", str(exc), False)


def _parsed(schema: Schema) -> Any:
    names = Names()
    try:
        # A logical type that it does not know, which changes nothing in what reads what.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AvroWarning)
            for text in schema.needed().values():
                make_avsc_object(json.loads(text), names)
            said = json.loads(schema.text)
            known = names.get_name(said) if isinstance(said, str) else None
            found = known or make_avsc_object(said, names)
            for each in names.names.values():
                _write_out_aliases(each)
    except RecursionError:
        raise
    # It raises all kinds of errors for a malformed schema; for each field around it, it tells the
    # whole field before what is wrong.
    except Exception as exc:
        if _ended_in_recursion(exc):
            raise RecursionError from exc
        problem = str(exc).rsplit("valid Avro schema: ", 1)[-1]
        raise CallerError(f"no Avro schema: {problem}") from exc
    return found


def _ended_in_recursion(error: BaseException | None) -> bool:
    """Whether `avro` has wrapped one: from Python 3.12 on, `json` reads deeper texts than it."""
    while error is not None and not isinstance(error, RecursionError):
        error = error.__context__
    return error is not None


def _write_out_aliases(schema: Any) -> None:
    aliases = schema.get_prop("aliases")
    if isinstance(aliases, list):
        full = [Name(alias, None, schema.namespace).fullname for alias in aliases]
        schema.set_prop("aliases", full)


class _Comparison:
    def __init__(self) -> None:
        self._checker = ReaderWriterCompatibilityChecker()
        self._told: set[tuple[int, int]] = set()

    def reasons(self, reader: Any, writer: Any, at: str) -> Iterator[Reason]:
        found = self._checker.get_compatibility(reader, writer)
        pair = id(reader), id(writer)
        # A type may stand in many places, and within itself.
        if found.compatibility is SchemaCompatibilityType.compatible or pair in self._told:
            return
        self._told.add(pair)
        if writer.type == "union":
            for each in writer.schemas:
                yield from self.reasons(reader, each, at)
        elif reader.type != writer.type:
            union = reader.type == "union"
            reads = "no type of the union reads" if union else f"{reader.type} cannot read"
            yield Reason(at, f"{reads} {writer.type}")
        elif reader.type == "array":
            yield from self.reasons(reader.items, writer.items, f"{at}[]")
        elif reader.type == "map":
            yield from self.reasons(reader.values, writer.values, f"{at}{{}}")
        else:
            yield from self._named(reader, writer, at)

    def _named(self, reader: Any, writer: Any, at: str) -> Iterator[Reason]:
        if check_schema_names(reader, writer, []).incompatibilities:
            yield Reason(at, f"{reader.fullname} is not named {writer.fullname}, nor by an alias")
        if reader.type == "enum":
            missing = sorted({*writer.symbols} - {*reader.symbols})
            if missing and reader.get_prop("default") is None:
                yield Reason(at, f"the enum lacks {', '.join(missing)} and has no default")
        elif reader.type == "fixed":
            if reader.size != writer.size:
                yield Reason(at, f"fixed of {reader.size} bytes cannot read {writer.size}")
        else:
            for field in reader.fields:
                written = lookup_writer_field(writer, field)
                place = f"{at}.{field.name}"
                if written is not None:
                    yield from self.reasons(field.type, written.type, place)
                # Avro fills in a missing field only from its default.
                elif not field.has_default:
                    yield Reason(place, "was not written, and has no default")
