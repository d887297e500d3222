"""What a cluster does for those who watch its events, however many begin at once."""

from __future__ import annotations

import asyncio

from pocketmq.testing import start_cluster


def test_two_first_watchers_at_once_are_told_by_one_task() -> None:
    with start_cluster() as cluster:

        async def both() -> int:
            events = cluster.control.events
            async with asyncio.TaskGroup() as group:
                entered = [asyncio.Event(), asyncio.Event()]

                async def watch(own: asyncio.Event) -> None:
                    async with events.watch():
                        own.set()
                        for each in entered:
                            await each.wait()
                        counted.append(
                            sum(task.get_name() == "event stream" for task in asyncio.all_tasks())
                        )

                counted: list[int] = []
                for own in entered:
                    group.create_task(watch(own))
            assert events.is_watched is False
            return max(counted)

        assert cluster.thread.result(both()) == 1
