"""The disk of a simulated controller: texts that are appended to, and synced in a while."""

from __future__ import annotations

from random import Random

from pocketmq.runtime.clock import Clock
from pocketmq.simulation.disk_work import USUAL_SYNC_S


class JournalFiles:
    """Files that outlive processes; a power cut leaves what was synced, and perhaps more.

    Args:
        clock: True time.
        chance: Draws how long a sync takes, and what survives.
    """

    def __init__(self, clock: Clock, chance: Random) -> None:
        self.hung_s = 0.0
        """So much longer a sync takes."""
        self._texts: dict[str, str] = {}
        self._synced: dict[str, str] = {}
        self._clock = clock
        self._chance = chance

    def cut_power(self) -> None:
        """Keep what is on the medium: of unsynced lines any number of characters."""
        for path, text in self._texts.items():
            synced = self._synced.get(path, "")
            if text.startswith(synced):
                more = len(text) - len(synced)
                text = text[: len(synced) + self._chance.randint(0, more)]
            elif self._chance.random() < 0.5:
                text = synced
            self._synced[path] = text
        self._texts = {path: text for path, text in self._synced.items() if text}
        self._synced = dict(self._texts)

    def make_directory(self, path: str, *, lasting: bool = False) -> None:
        """Directories are there by themselves."""

    def sync_directory(self, path: str) -> None:
        """Names are synced with their files."""

    def file_size(self, path: str) -> int | None:
        text = self._texts.get(path)
        return None if text is None else len(text)

    async def read_text(self, path: str) -> str | None:
        return self._texts.get(path)

    async def write_text(self, path: str, text: str) -> None:
        self._texts[path] = text
        await self._sync(path)

    async def append_text(self, path: str, text: str) -> None:
        self._texts[path] += text
        await self._sync(path)

    async def rename(self, source: str, target: str) -> None:
        self._texts[target] = self._texts.pop(source)
        self._synced.pop(source, None)
        await self._sync(target)

    async def _sync(self, path: str) -> None:
        text = self._texts[path]
        await self._clock.sleep(self._chance.uniform(*USUAL_SYNC_S) + self.hung_s)
        self._synced[path] = text
