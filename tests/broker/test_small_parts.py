"""Parts of a broker that have no state to speak of: its address, its roles, arrivals."""

from __future__ import annotations

import pytest

from pocketmq.broker.address import BrokerAddress
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.signals import Arrival, ArrivalSignal


def test_an_address_is_packed_as_records_hold_it() -> None:  # S-5
    address = BrokerAddress("127.0.0.1", 10911)
    assert (str(address), address.port) == ("127.0.0.1:10911", 10911)
    assert address.packed == bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
    address.listens_at(80)
    assert (str(address), address.port) == ("127.0.0.1:80", 80)
    assert address.packed == bytes((127, 0, 0, 1, 0, 0, 0, 80))


@pytest.mark.parametrize(
    ("role", "is_master"),
    [
        (BrokerRole.ASYNC_MASTER, True),
        (BrokerRole.SYNC_MASTER, True),
        (BrokerRole.SLAVE, False),
    ],
)
def test_two_roles_are_masters(role: BrokerRole, is_master: bool) -> None:  # H-1
    assert role.is_master is is_master


def test_an_arrival_is_told_to_those_that_asked_for_its_topic() -> None:
    signal, told = ArrivalSignal(), list[str]()

    def listener(name: str) -> Arrival:
        return lambda *arrived: told.append(f"{name} {arrived}")

    signal.connect(listener("first"))
    signal.connect(listener("orders"), "orders")
    signal.connect(listener("all"))
    signal.emit("orders", 1, 5, [7])
    assert told == [f"{name} ('orders', 1, 5, [7])" for name in ("first", "orders", "all")]
    told.clear()
    signal.emit("bills", 0, 2, [])
    assert told == ["first ('bills', 0, 2, [])", "all ('bills', 0, 2, [])"]
