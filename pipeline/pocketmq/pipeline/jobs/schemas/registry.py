"""Schemas of topics: from a JSON file, or from a registry that speaks Confluent's REST interface.

    {"orders": {"type": "AVRO", "schema": {"type": "record", ...}},
     "clicks": [{"type": "JSON", "file": "click-1.json"}, {"type": "JSON", "file": "click-2.json"}]}

A list has the versions of a topic, oldest first. `file` is relative to the registry's file. In a
registry the subject of a topic is `<topic>-value`, and schemas may refer to other subjects.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from pocketmq.runtime.errors import CallerError, PeerError

KINDS: Final = ("AVRO", "JSON", "PROTOBUF")
TIMEOUT_S: Final = 10.0
MOST_BYTES: Final = 16 * 1024 * 1024
MOST_REFERENCES: Final = 200
LATEST: Final = -1
"""The version of a reference that means the newest one."""

_OF_OTHER_JSON: Final = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
"""What reading a file raises that has no JSON, or JSON of another form."""

Place = tuple[str, int]
"""Subject and version."""


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of a topic's schema."""

    kind: str
    """One of `KINDS`."""
    text: str
    version: int = 1
    schema_id: int = 0
    """In the registry; 0 from a file."""
    message: str = ""
    """Protobuf: name of the message; its first one without."""
    references: tuple[Reference, ...] = ()
    """Other schemas that it needs."""

    def needed(self) -> dict[str, str]:
        """The texts of all schemas that it refers to and that those refer to, by the names under
        which they are referred to; each comes behind those that it needs itself.

        Raises:
            CallerError: Two of them have one name.
        """
        found: dict[str, str] = {}
        _add_needed(self, found)
        return found


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one refers to."""

    name: str
    """Protobuf: the file that is imported; Avro: the type that is named; JSON: the address in
    `$ref`."""
    schema: Schema
    subject: str = ""
    """Under which the registry has it; empty without one."""
    version: int = 0


class Opinion(NamedTuple):
    """What a registry says of two versions."""

    fits: bool
    messages: list[str]
    is_of_both: bool = False
    """It was asked whether each of the two reads the other."""


def _add_needed(schema: Schema, found: dict[str, str]) -> None:
    for each in schema.references:
        # A schema's own references go in first: parsers need this order.
        if each.name not in found:
            _add_needed(each.schema, found)
        # Two references may lead to the same schema; only two different schemas of one name are a
        # fault.
        if found.setdefault(each.name, each.schema.text) != each.schema.text:
            raise CallerError(f"two different schemas have the same reference name {each.name!r}")


class RegistryError(PeerError):
    """A registry does not answer, or not as one."""


class Registry(Protocol):
    """Where schemas come from."""

    def versions(self, topic: str) -> list[Schema]:
        """Every version, oldest first; none for a topic without a schema.

        Raises:
            CallerError: One of them refers to a schema that there is not.
        """

    def by_id(self, schema_id: int) -> Schema:
        """The schema with which a body says that it was written.

        Raises:
            CallerError: There is none, or it refers to one that there is not.
        """

    def opinion(self, topic: str, reader: Schema, writer: Schema) -> Opinion | None:
        """Whether one version of a topic's schema reads the other, by the registry's own rules.

        None if it has none, or asks nothing of the topic's versions. Nothing is written.
        """


def registry_of(where: str) -> Registry:
    """The registry at an `http://` address, or in a file.

    Raises:
        CallerError: The file is no registry.
    """
    if where.startswith(("http://", "https://")):
        return HttpRegistry(where)
    return FileRegistry(Path(where))


class FileRegistry:
    """Schemas in a file; see the module."""

    def __init__(self, path: Path) -> None:
        try:
            said = json.loads(path.read_text())
            self._topics = {
                topic: [
                    _of_entry(path, entry, number)
                    for number, entry in enumerate(
                        listed if isinstance(listed, list) else [listed], 1
                    )
                ]
                for topic, listed in said.items()
            }
        # Whatever is wrong with the file, the error names its path.
        except (OSError, *_OF_OTHER_JSON) as exc:
            raise CallerError(f"{path}: no registry of schemas: {exc!r}") from exc

    def versions(self, topic: str) -> list[Schema]:
        """As listed."""
        return self._topics.get(topic, [])

    def by_id(self, schema_id: int) -> Schema:
        """Files give no ids."""
        raise CallerError(
            f"schema id {schema_id} cannot be looked up: a registry in a file has no ids"
        )

    def opinion(self, topic: str, reader: Schema, writer: Schema) -> Opinion | None:
        """A file has no rules."""
        return None


@dataclass(frozen=True, slots=True)
class KnownVersions:
    """A registry whose versions of some topics are known, and do not change: for the tasks of a
    job, which all have to read by the same ones."""

    registry: Registry
    listed: dict[str, list[Schema]]

    @classmethod
    def of(cls, registry: Registry, topics: Iterable[str]) -> KnownVersions:
        """Ask for the versions of these topics."""
        return cls(registry, {topic: registry.versions(topic) for topic in topics})

    def versions(self, topic: str) -> list[Schema]:
        """As they were."""
        return self.listed.get(topic, [])

    def by_id(self, schema_id: int) -> Schema:
        """One of these, or what the registry has."""
        for versions in self.listed.values():
            for each in versions:
                if each.schema_id == schema_id != 0:
                    return each
        return self.registry.by_id(schema_id)

    def opinion(self, topic: str, reader: Schema, writer: Schema) -> Opinion | None:
        """The registry's."""
        return self.registry.opinion(topic, reader, writer)


def _of_entry(path: Path, entry: dict[str, Any], version: int) -> Schema:
    kind = str(entry["type"]).upper()
    if kind not in KINDS:
        raise CallerError(
            f"{path}: schema type {kind!r} is unknown; write one of {', '.join(KINDS)}"
        )
    if "file" in entry:
        text = (path.parent / entry["file"]).read_text()
    else:
        said = entry["schema"]
        text = said if isinstance(said, str) else json.dumps(said)
    return Schema(kind, text, version, message=str(entry.get("message", "")))


def _sent(schema: Schema) -> dict[str, Any]:
    """A schema as questions have it."""
    named = [
        {"name": each.name, "subject": each.subject, "version": each.version}
        for each in schema.references
    ]
    return {"schema": schema.text, "schemaType": schema.kind, "references": named}


class HttpRegistry:
    """A registry with Confluent's REST interface; answers are kept."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._versions: dict[str, list[Schema]] = {}
        self._levels: dict[str, str] = {}
        """Subject, as in addresses -> its compatibility level."""
        self._by_id: dict[int, Schema] = {}
        self._referred: dict[tuple[str, int], Schema] = {}

    def versions(self, topic: str) -> list[Schema]:
        """GET /subjects/<topic>-value/versions, and each of them."""
        if topic not in self._versions:
            subject = urllib.parse.quote(f"{topic}-value", safe="")
            # An unknown subject has no versions, which is no error here.
            numbers = self._get(f"/subjects/{subject}/versions") or []
            self._versions[topic] = [
                self._of_answer(self._get(f"/subjects/{subject}/versions/{number}"), number)
                for number in numbers
            ]
        return self._versions[topic]

    def by_id(self, schema_id: int) -> Schema:
        """GET /schemas/ids/<id>."""
        if schema_id not in self._by_id:
            said = self._get(f"/schemas/ids/{schema_id}")
            if said is None:
                raise CallerError(
                    f"the schema registry {self.address} has no schema with id {schema_id}"
                )
            self._by_id[schema_id] = self._of_answer(said | {"id": schema_id}, 0)
        return self._by_id[schema_id]

    def opinion(self, topic: str, reader: Schema, writer: Schema) -> Opinion | None:
        """POST /compatibility/subjects/<topic>-value/versions/<n>; it compares and keeps nothing.

        The registry compares as the subject's level says. With BACKWARD the schema that is sent has
        to read the version, with FORWARD the version has to read what is sent, so it depends on the
        level which of the two is sent; with FULL both.
        """
        subject = urllib.parse.quote(f"{topic}-value", safe="")
        level = self._level(subject)
        # With FORWARD the reader is the older schema, which the registry has as a version.
        sent, version = (writer, reader) if level.startswith("FORWARD") else (reader, writer)
        # NONE, or a level that this version does not know, says nothing about the versions.
        if not level.startswith(("BACKWARD", "FORWARD", "FULL")):
            return None
        where = f"/compatibility/subjects/{subject}/versions/{version.version}?verbose=true"
        answer = self._get(where, _sent(sent))
        # Without a usable answer, the rules here decide.
        if not isinstance(answer, dict) or not isinstance(answer.get("is_compatible"), bool):
            return None
        messages = [str(each) for each in answer.get("messages") or ()]
        return Opinion(answer["is_compatible"], messages, level.startswith("FULL"))

    def _level(self, subject: str) -> str:
        """The subject's compatibility level, or that of the registry; empty if neither is told."""
        if subject not in self._levels:
            # A registry that does not know `defaultToGlobal` may answer 404 for a subject without a
            # level.
            said = self._get(f"/config/{subject}?defaultToGlobal=true") or self._get("/config")
            told = said.get("compatibilityLevel", "") if isinstance(said, dict) else ""
            self._levels[subject] = str(told)
        return self._levels[subject]

    def _get(self, path: str, asked: dict[str, Any] | None = None) -> Any:
        """The answer to a question, which may need a body to be asked; None if there is none."""
        kind = "application/vnd.schemaregistry.v1+json"
        request = urllib.request.Request(  # noqa: S310 - `registry_of` looks at the scheme
            self.address + path,
            None if asked is None else json.dumps(asked).encode(),
            {"Accept": kind, "Content-Type": kind},
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
                # The read is bounded: a longer answer is cut off, and fails as JSON.
                return json.loads(answer.read(MOST_BYTES))
        except urllib.error.HTTPError as exc:
            exc.close()
            # The caller decides what it means that there is none.
            if exc.code == 404:
                return None
            raise RegistryError(f"{self.address}{path}: answered {exc.code}") from exc
        except (OSError, RecursionError, ValueError) as exc:
            raise RegistryError(
                f"{self.address}{path}: {exc}; check that the schema registry is running"
            ) from exc

    def _of_answer(self, said: Any, version: int, within: tuple[Place, ...] = ()) -> Schema:
        """The schema that an answer has.

        Args:
            said: The answer.
            version: Where it says none.
            within: The schemas that led here by their references.
        """
        try:
            kind, schema_id = str(said.get("schemaType", "AVRO")), int(said["id"])
            text, version = said["schema"], int(said.get("version", version))
            referred = [
                (str(each["name"]), (str(each["subject"]), int(each["version"])))
                for each in said.get("references") or ()
            ]
        except (AttributeError, KeyError, TypeError, ValueError) as exc:
            raise RegistryError(
                f"this is not an answer of a schema registry: {said!r}; check the registry's "
                "address"
            ) from exc
        found = tuple(
            Reference(name, self._reference(schema_id, place, within), *place)
            for name, place in referred
        )
        return Schema(kind, text, version, schema_id, references=found)

    def _reference(self, schema_id: int, place: Place, within: tuple[Place, ...]) -> Schema:
        """GET /subjects/<subject>/versions/<version>."""
        subject, version = place
        # References may form a circle.
        if place in within:
            raise RegistryError(
                f"{self.address}: version {version} of {subject!r} refers to itself"
            )
        if place not in self._referred:
            # Each reference costs a request, and a registry may have any number of them.
            if len(self._referred) >= MOST_REFERENCES:
                raise RegistryError(f"{self.address}: more than {MOST_REFERENCES} references")
            # Cached for this run: "latest" may change between two bodies.
            number = "latest" if version == LATEST else version
            said = self._get(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{number}")
            if said is None:
                raise CallerError(
                    f"schema {schema_id} refers to version {version} of subject {subject!r}, but "
                    f"the registry {self.address} does not have this version"
                )
            self._referred[place] = self._of_answer(said, version, (*within, place))
        return self._referred[place]
