"""Who has the least id of a group, as a slave hears of it: Z-4, Z-5."""

from __future__ import annotations

from pocketmq.broker.acting_master.group_view import GroupView

MASTER, FIRST, SECOND = "h0:1", "h1:1", "h2:1"


def test_a_slave_acts_exactly_while_its_id_is_the_least() -> None:  # Z-5
    view = GroupView(2)
    story = [
        ({0: MASTER, 1: FIRST, 2: SECOND}, False, False),
        ({1: FIRST, 2: SECOND}, True, False),
        ({2: SECOND}, True, True),
        ({2: SECOND}, False, True),
        ({0: MASTER, 2: SECOND}, True, False),
        ({2: SECOND}, True, True),
        ({1: FIRST, 2: SECOND}, True, False),
    ]
    for members, is_new, acts in story:
        assert (view.members(members), view.acts) == (is_new, acts), members


def test_a_name_server_that_knows_nobody_changes_nothing() -> None:  # Z-4
    view = GroupView(1)
    assert not view.members({})
    assert not view.acts
    view.members({1: FIRST})
    assert not view.members({})
    assert view.acts


def test_what_was_told_sooner_is_not_new_when_it_is_asked_for() -> None:  # Z-6
    view = GroupView(1)
    assert view.told(1, FIRST)
    assert not view.members({1: FIRST})
    assert view.told(0, MASTER)
    assert not view.acts
    assert view.least.is_master
    assert view.least.address == MASTER
