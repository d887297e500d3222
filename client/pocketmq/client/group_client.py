"""Base class of producers and consumers: clients with a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from pocketmq.client.config import ClientConfig, ClientOptions
from pocketmq.client.instance import ClientInstance
from pocketmq.client.instances import acquire, release
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.messages.validation import check_client_group
from pocketmq.runtime.lifetime import StartStop


class GroupClient(StartStop):
    """A user of this process's client instance; all members of one client id share it (P-2)."""

    KIND: ClassVar[str]
    """`producer` or `consumer`, for errors."""

    def __init__(self, group: str, options: ClientOptions) -> None:
        self.config = ClientConfig.of(options)
        self.profile = self.config.profile
        check_client_group(group, max_chars=self.profile.client.group_name_max_chars)
        self._group = group
        self._instance: ClientInstance | None = None

    @property
    def group(self) -> str:
        """Its group's name."""
        return self._group

    @property
    def client_id(self) -> str:
        """`ip@instance[@unit]`; known once started (P-1)."""
        return self._started().client_id

    async def _join(
        self, register: Callable[[ClientInstance], None], *, unique: bool
    ) -> ClientInstance:
        """Become a user of the client instance, which need not run yet.

        Args:
            register: Enters this client in the instance.
            unique: Whether the instance name becomes one that nobody else has (P-1).

        Raises:
            ClientError: it is started already.
            DuplicateGroupError: this client id has such a client of the group already.
        """
        if self._instance is not None:
            raise ClientError(
                f"{self.KIND} {self._group} is already started; call start() only once"
            )
        self.config = await self.config.with_identity(unique=unique)
        instance = acquire(self.config)
        try:
            register(instance)
        except ClientError:
            await release(instance)
            raise
        self._instance = instance
        return instance

    def _started(self) -> ClientInstance:
        if self._instance is None:
            raise self._not_running()
        return self._instance

    def _not_running(self) -> ClientError:
        return ClientError(
            f"{self.KIND} {self._group} is not running; use it in a `with` block, or call start()"
        )
