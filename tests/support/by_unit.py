"""Which worker of pytest-xdist runs which unit (`groups.py`): the longest unit is handed out first.

A worker runs a test when it knows the next one, or has been told that there is none: the next one
says which fixtures stay. So a worker with a single test waits, and may wait for nobody.
"""

from __future__ import annotations

import contextlib
from typing import Any

from xdist.scheduler import LoadScopeScheduling

from support.groups import seconds_of, unit_of


class ByUnit(LoadScopeScheduling):
    """Hands out units, and what a dead worker leaves, but for the test at which it died."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _reschedule(self, node: Any) -> None:
        super()._reschedule(node)
        if node not in self.registered_collections:
            return
        # Of a dead worker's unit a single test may be left. When all other workers have been told
        # to end, no event of theirs would bring the worker that has it a second one.
        while self.workqueue and not node.shutting_down and self._is_waiting(node):
            self._assign_work_unit(node)
        if not self.workqueue and self._is_waiting(node):
            node.shutdown()

    def _is_waiting(self, node: Any) -> bool:
        return self._pending_of(self.assigned_work[node]) < 2

    def _assign_work_unit(self, node: Any) -> None:
        if node not in self.registered_collections:
            return  # it has replaced one that died, and collects still
        self.workqueue.move_to_end(max(self.workqueue, key=seconds_of), last=False)
        with contextlib.suppress(OSError):
            # It died just now, and that is not told yet: `remove_node` takes the unit back.
            super()._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        # A unit that is done must not be handed out again: its new worker would wait for ever.
        # Nor is the test at which the worker died, which would take the next one along.
        workload = self.assigned_work.pop(node)
        left = [(scope, unit) for scope, unit in workload.items() if not all(unit.values())]
        if not left:
            return None
        _, first = left[0]
        crashed = next(test for test, is_done in first.items() if not is_done)
        first[crashed] = True
        self.workqueue.update((scope, unit) for scope, unit in left if not all(unit.values()))
        for each in self.assigned_work:
            self._reschedule(each)
        return str(crashed)
