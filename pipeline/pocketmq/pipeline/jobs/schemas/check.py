"""Whether the versions of a topic's schema fit each other."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.pipeline.jobs.schemas.evolution import Misfit, Mode, misfits
from pocketmq.pipeline.jobs.schemas.registry import Registry, registry_of
from pocketmq.runtime.errors import CallerError


@dataclass(frozen=True, slots=True)
class Checked:
    """What was compared, and what does not fit or cannot be told."""

    versions: int
    misfits: list[Misfit]


def schema_check(topic: str, registry: str | Registry, *, mode: Mode = "backward") -> Checked:
    """Compare each version of a topic's schema with the next one.

    Args:
        topic: Whose schema.
        registry: A file, an address, or a registry.
        mode: `backward`: the newer reads what the older wrote; `forward`: the other way; or `full`.

    Raises:
        CallerError: The topic has no schema, or one cannot be read.
        RegistryError: The registry does not answer.
        MissingToolError: What reads Protobuf is not installed.
    """
    known = registry_of(registry) if isinstance(registry, str) else registry
    versions = known.versions(topic)
    if not versions:
        raise CallerError(f"the registry has no schema of topic {topic!r}")
    return Checked(len(versions), misfits(versions, mode))
