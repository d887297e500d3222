"""What a stream of stores would lose without a word: files that went before they were read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.progress.store_stands import Stand
from pocketmq.pipeline.workers.worker_log import log


@dataclass(frozen=True, slots=True)
class FileLoss:
    """Files of one store's log that a stream will not read."""

    store: str
    stand: Stand
    """Where the stream stands in it."""
    found: int
    """Where it goes on instead."""
    files: int
    """How many, as far as one knows: at least so many."""
    what: str
    is_of_store: bool
    """Whether the store is another one, and nobody may have seen all files of the former."""


def removed(store: str, stand: Stand, first: int, files: int) -> FileLoss:
    """A log that begins behind the stream's place."""
    what = (
        f"the log begins at {first}, and the stream has read it up to {stand.end}: "
        "files were removed before they were read"
    )
    return FileLoss(store, stand, first, files, what, is_of_store=False)


def replaced(store: str, stand: Stand, first: int, end: int, files: int) -> FileLoss:
    """A log that is not the one that was read."""
    what = (
        f"the stream has read it up to log offset {stand.end}, and its closed files end at "
        f"{end} or are others: the store was replaced"
    )
    return FileLoss(store, stand, first, files, what, is_of_store=True)


class FileLossPolicy:
    """Stops the stream at losses, or counts each once and lets it go on.

    Args:
        fails: What option failOnDataLoss says.
    """

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self._told: dict[tuple[str, Stand], FileLoss] = {}

    @property
    def lost(self) -> int:
        """Files counted so far."""
        return sum(loss.files for loss in self._told.values())

    @property
    def replaced(self) -> int:
        """Stores that were replaced, so far."""
        return sum(loss.is_of_store for loss in self._told.values())

    def judge(self, losses: Collection[FileLoss]) -> None:
        """Tell of losses.

        Raises:
            DataLossError: There are some, and that is to fail; it names the first.
        """
        for loss in losses:
            if self.fails:
                raise DataLossError(loss.store, loss.stand.end, loss.found, loss.what)
            before = self._told.get((loss.store, loss.stand))
            # While the stream waits, the batch is planned again: a loss is logged again only if it
            # has grown.
            if before is not None and before.files >= loss.files:
                continue
            self._told[loss.store, loss.stand] = loss
            log.warning(
                "files.lost",
                store=loss.store,
                wanted=loss.stand.end,
                found=loss.found,
                count=loss.files,
                reason=loss.what,
            )
