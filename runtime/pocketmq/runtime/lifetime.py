"""What has a start and a stop, as the block of an `async with`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class StartStop(ABC):
    """Runs from `start` to `stop`; an `async with` block calls both."""

    @abstractmethod
    async def start(self) -> None:
        """Begin."""

    @abstractmethod
    async def stop(self) -> None:
        """End; may be called twice."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.stop()
