"""Whether the versions of a topic's schema fit each other."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.pipeline.jobs.schemas.evolution import MISFIT, UNTOLD, Misfit, Mode, misfits, pairs
from pocketmq.pipeline.jobs.schemas.registry import Registry, registry_of
from pocketmq.runtime.errors import CallerError


@dataclass(frozen=True, slots=True)
class Checked:
    """What was compared, and what does not fit or cannot be told."""

    versions: int
    misfits: list[Misfit]


def schema_check(topic: str, registry: str | Registry, *, mode: Mode = "backward") -> Checked:
    """Compare each version of a topic's schema with the next one.

    A registry is asked for what it says of them, by its own rules; nothing is written to it. Of a
    file, and of a registry that asks nothing of the topic's versions, the rules here decide, and
    say where they cannot tell.

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
    found: list[Misfit] = []
    for reader, writer in pairs(versions, mode):
        # The registry's own verdict goes first: it decides what producers may register.
        said = known.opinion(topic, reader, writer)
        if said is None:
            found += misfits(reader, writer)
        elif not said.fits:
            # Asked about both directions, it does not say which of them does not fit.
            verdict = UNTOLD if said.is_of_both and mode != "full" else MISFIT
            what = said.messages or ["the registry says that they are not compatible"]
            found += [Misfit(reader.version, writer.version, each, verdict) for each in what]
    return Checked(len(versions), found)
