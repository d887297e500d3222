"""Who this replica is at the controller: `brokerIdentity` and `brokerIdentity-temp` (D-1 to D-4).

    brokerIdentity         DefaultCluster#broker-a#2
    brokerIdentity-temp    DefaultCluster#broker-a#2#127.0.0.1:10911;1700000000000

The second is written before an id is claimed, with what the claim says, so that a claim whose
answer was lost can be made again as the same one.
"""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.broker.store import Disk
from pocketmq.runtime.errors import DiskError

FILE, TEMP_FILE = "brokerIdentity", "brokerIdentity-temp"


class Identity(NamedTuple):
    """A replica."""

    cluster: str
    name: str
    broker_id: int
    check_code: str = ""
    """Of a claim that is not known to have succeeded."""

    def text(self) -> str:
        """Content of its file."""
        parts = [self.cluster, self.name, str(self.broker_id)]
        return "#".join([*parts, self.check_code] if self.check_code else parts)


class IdentityFiles:
    """The two files in the store's root.

    Args:
        root: of the store.
        disk: the seam.
    """

    def __init__(self, root: str, disk: Disk) -> None:
        self._root = root
        self._disk = disk

    async def load(self, cluster: str, name: str) -> Identity | None:
        """Who this replica is, or claims to be.

        Raises:
            DiskError: a file is another broker's, or cannot be read.
        """
        # Read the permanent file first; the other one holds a claimed id that is not confirmed.
        for file in (FILE, TEMP_FILE):
            path = f"{self._root}/{file}"
            text = await self._disk.read_text(path)
            if not text:
                continue
            found = _parse(text.strip())
            if found is None:
                raise DiskError(path, f"{text[:100]!r} is no identity", advice="remove it")
            if (found.cluster, found.name) != (cluster, name):
                raise DiskError(
                    path,
                    f"the store belongs to broker {found.cluster}#{found.name}, but this broker "
                    f"is {cluster}#{name}",
                    advice=(
                        "start the broker with the cluster name and the broker name of its store"
                    ),
                )
            return found
        return None

    async def claim(self, identity: Identity) -> None:
        """Note a claim before it is made."""
        await self._replace(TEMP_FILE, identity)

    async def confirmed(self, identity: Identity) -> None:
        """The controller accepted the claim."""
        await self._replace(FILE, identity._replace(check_code=""))
        self.refused()

    def refused(self) -> None:
        """The claim was refused: another id has to be asked for."""
        self._disk.remove_file(f"{self._root}/{TEMP_FILE}")

    async def _replace(self, file: str, identity: Identity) -> None:
        path = f"{self._root}/{file}"
        await self._disk.write_text(f"{path}.tmp", identity.text())
        await self._disk.rename(f"{path}.tmp", path)


def _parse(text: str) -> Identity | None:
    parts = text.split("#", 3)
    if len(parts) < 3 or not parts[2].isdigit():
        return None
    return Identity(parts[0], parts[1], int(parts[2]), parts[3] if len(parts) > 3 else "")
