"""Announcements: changes of topics that name servers have not heard of, and who waits for it."""

from __future__ import annotations

from pocketmq.broker.topics.announcements import Announcements


def test_each_changed_topic_is_told_once() -> None:
    announcements = Announcements(wanted=True)
    for topic in ("orders", "bills", "orders"):
        announcements.note(topic)
    assert announcements.take() == (["orders", "bills"], [])
    assert announcements.take() == ([], [])


def test_a_callback_waits_while_anything_is_to_be_told() -> None:
    announcements, heard = Announcements(wanted=True), list[str]()
    announcements.when_told(lambda: heard.append("nothing to tell"))
    assert heard == ["nothing to tell"]
    announcements.note("orders")
    announcements.when_told(lambda: heard.append("told"))
    assert len(heard) == 1
    _, waiting = announcements.take()
    for callback in waiting:
        callback()
    assert heard[1:] == ["told"]
    announcements.when_told(lambda: heard.append("at once"))
    assert heard[2:] == ["at once"]


def test_without_a_name_server_nobody_waits() -> None:
    announcements, heard = Announcements(wanted=False), list[str]()
    announcements.note("orders")
    announcements.when_told(lambda: heard.append("at once"))
    assert heard == ["at once"]
    assert announcements.take() == ([], [])
