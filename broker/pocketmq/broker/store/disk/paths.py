"""Paths below a store's root whose last part is a name that a peer chose.

Topics become folders, and nothing else that a peer names does. A name that is more than one path
component would lead to another topic's files, or out of the store: it ends where the path is made.
"""

from __future__ import annotations

from pocketmq.broker.store.errors import IllegalPathError
from pocketmq.protocol.messages.validation import is_folder_name


def child(directory: str, name: str) -> str:
    """The path of `name` in `directory`.

    Raises:
        IllegalPathError: the name is not one path component.
    """
    if not is_folder_name(name):
        raise IllegalPathError(directory, name)
    return f"{directory}/{name}"
