"""`BrokerCore`: what every subject may use; built before all of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pocketmq.broker.address import BrokerAddress
from pocketmq.broker.config import PROTECTED_OPTIONS, BrokerConfig
from pocketmq.broker.lease import MasterLease
from pocketmq.broker.role import RoleState
from pocketmq.broker.role_names import UNKNOWN_ID, BrokerRole
from pocketmq.broker.signals import BrokerSignals
from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.broker.store import Disk, MessageStore, StoreConfig
from pocketmq.broker.store.dispatch.store_events import StoreEvents
from pocketmq.broker.tables.table_file import TableFile
from pocketmq.operation.events.roles import RoleChanged
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.protocol.budget import Budget, BudgetSource
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.configuration.config import all_in
from pocketmq.runtime.configuration.live_options import LiveOptions
from pocketmq.runtime.profile import Profile

TableT = TypeVar("TableT")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCore:
    """Options, seams, the store, and the signals."""

    options: LiveOptions
    """The broker's, the store's and the budget's; `config` has the broker's as they are now. Its
    signal `changed` says which act with new values."""
    config_now: Callable[[], BrokerConfig]
    """Gives `config`: for what asks it at every request."""
    profile: Profile
    """4.9 or 5.x rules where they differ."""
    clock: Clock
    """Every timer and timestamp."""
    disk: Disk
    """Where the store and the tables lie."""
    store: MessageStore
    address: BrokerAddress
    budget: BudgetSource
    """What peers may cost now."""
    signals: BrokerSignals
    role: RoleState
    """Master or slave."""
    events: EventSink
    """What people and tools watch."""
    stats: BrokerStats = field(default_factory=BrokerStats)

    @property
    def config(self) -> BrokerConfig:
        """The broker's options as they are now; keep this object's copy for what may not change."""
        return self.config_now()

    @classmethod
    def of(
        cls,
        config: BrokerConfig,
        clock: Clock,
        profile: Profile,
        store_config: StoreConfig,
        disk: Disk,
        budget: Budget,
        events: EventSink = NO_EVENTS,
        ip: str = "",
    ) -> BrokerCore:
        """The core of one broker; the store's directory is `config.data`, whatever it says.

        `ip` is the address of `config.broker_ip1` where that is a name.
        """
        root = os.path.abspath(config.data.expanduser())
        signals = BrokerSignals()
        store_config = replace(store_config, store_path_root_dir=root)
        options = LiveOptions(
            config,
            store_config,
            budget,
            protected=PROTECTED_OPTIONS,
            others=all_in(config.broker_config_path),
        )
        return cls(
            options=options,
            # A partial is cheaper than a function, and this is called at each request.
            config_now=partial(options.by_class.__getitem__, BrokerConfig),
            profile=profile,
            clock=clock,
            disk=disk,
            store=MessageStore(
                store_config,
                disk,
                clock,
                profile.broker,
                on_arrival=signals.message_arrived.emit,
                now=partial(options.by_class.__getitem__, StoreConfig),
                events=StoreEvents(events, config.name),
            ),
            address=BrokerAddress(config.broker_ip1 or config.host, config.port, ip),
            budget=partial(options.by_class.__getitem__, Budget),
            signals=signals,
            events=events,
            role=_role_at_start(config),
        )

    def tell_role(self) -> None:
        """Tell who watches that this broker has another role."""
        if self.events.is_on:
            self.events.emit(
                RoleChanged(
                    *self.events.stamp(),
                    broker=self.config.name,
                    broker_id=self.role.broker_id,
                    role="ACTING_MASTER" if self.role.acts else self.role.role.name,
                )
            )

    def table_file(
        self,
        name: str,
        cls: type[TableT],
        load: Callable[[TableT], None],
        content: Callable[[], TableT],
    ) -> TableFile[TableT]:
        """A table of `<store>/config/`, for `SavedTable` or `PeriodicTable` (see `tables/`).

        Args:
            name: of the file, as `topics.json`.
            cls: its content, typed.
            load: takes over what the file holds.
            content: what the file shall hold.
        """
        path = Path(self.store.root) / "config" / name
        return TableFile(path, self.disk, self.clock, cls, load, content)


def _role_at_start(config: BrokerConfig) -> RoleState:
    """What the options say; with controllers a slave of nobody, until they have spoken."""
    if not config.enable_controller_mode:
        return RoleState(config.broker_role, config.broker_id)
    # Half of the time after which controllers elect another master: the lease ends well before
    # (W-2).
    lease_s = config.controller_heart_beat_timeout_mills / 2000
    lease = MasterLease(lease_s if config.master_lease_enable else 0)
    return RoleState(BrokerRole.SLAVE, UNKNOWN_ID, lease)


def defer(callback: Callable[[], None]) -> None:
    """Call it after the work at hand, in the next turn of the loop."""
    asyncio.get_running_loop().call_soon(callback)
