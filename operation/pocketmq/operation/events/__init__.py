"""Events: what people and tools watch, each declared once with its fields and rule.

    event.py       what all have in common; their JSON
    messages.py groups.py roles.py    the events
    vocabulary.py  all of them
    sink.py        where a role leaves them
    recording.py frames.py            as a file, with an index of time

docs/events.md lists them.
"""

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.vocabulary import VOCABULARY, AnyEvent

__all__ = ["VOCABULARY", "AnyEvent", "Event"]
