"""A disk whose syncs of the log hang, so that what must wait for them can be seen waiting."""

from __future__ import annotations

from pathlib import Path

from pocketmq.broker.store.disk.disk_worker import DiskWorker, Done, InlineWorker, Job
from support.model_disk import ModelDisk


class HungWorker(InlineWorker):
    """Syncs of the log wait for as long as the disk hangs."""

    def __init__(self, disk: HangingDisk) -> None:
        self._disk = disk

    def submit(self, job: Job, done: Done) -> None:
        if self._disk.hangs:
            self._disk.waiting.append((job, done))
        else:
            super().submit(job, done)


class HangingDisk(ModelDisk):
    """A disk whose syncs of the log can hang; configuration files are written all the same."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True)
        super().__init__(root)
        self.hangs = False
        self.waiting: list[tuple[Job, Done]] = []

    def start_worker(self, name: str) -> DiskWorker:
        return HungWorker(self) if name == "log-flush" else InlineWorker()

    def go_on(self, failure: Exception | None = None) -> None:
        """Carry out what waited, or fail it."""
        self.hangs = False
        waiting, self.waiting = self.waiting, []
        for job, done in waiting:
            if failure is None:
                job()
            done(failure)
