"""The client instances of this process: one for each client id, shared by its users (P-2)."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from pocketmq.client.config import ClientConfig
from pocketmq.client.instance import ClientInstance
from pocketmq.protocol.errors import ClientError

_instances: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[tuple[object, ...], ClientInstance]
] = WeakKeyDictionary()


def acquire(config: ClientConfig) -> ClientInstance:
    """The instance of a client id in the running loop (P-2); `release` it after use.

    Raises:
        ClientError: it exists with other name servers, another encoding or other credentials.
    """
    loop = asyncio.get_running_loop()
    if loop not in _instances:
        _forget_closed_loops()
    shared = _instances.setdefault(loop, {})
    key = _key(config)
    instance = shared.get(key)
    if instance is None:
        instance = shared[key] = ClientInstance(config)
    elif _reach(instance.config) != _reach(config):
        raise ClientError(
            f"client id {config.client_id} is already in use with different name servers, "
            "encoding or credentials; give this client another instance_name"
        )
    instance.users += 1
    return instance


async def release(instance: ClientInstance) -> None:
    """Give an instance back; its last user stops it."""
    instance.users -= 1
    if instance.users == 0:
        shared = _instances.get(asyncio.get_running_loop(), {})
        shared.pop(_key(instance.config), None)
        await instance.stop()


def running() -> list[ClientInstance]:
    """Every instance of this process, of whichever loop; others may end at any moment."""
    return [instance for shared in list(_instances.values()) for instance in list(shared.values())]


def runs_clients(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether any client runs in a loop."""
    return bool(_instances.get(loop))


def _forget_closed_loops() -> None:
    """Drop instances that nobody released before their loop ended.

    An instance refers to its loop, so a weak key alone would keep both for ever.
    """
    for loop in [loop for loop in list(_instances) if loop.is_closed()]:
        del _instances[loop]


def _key(config: ClientConfig) -> tuple[object, ...]:
    # Two simulated machines may have equal ids in one loop; their seams tell them apart.
    return (config.client_id, id(config.network), id(config.clock))


def _reach(config: ClientConfig) -> tuple[object, ...]:
    """What all users of one connection have in common."""
    return (config.nameservers, config.encoding, config.credentials)
