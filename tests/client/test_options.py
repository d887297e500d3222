"""A client's keyword arguments and its settings name the same things, of the same types."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest

from pocketmq.client.config import ClientOptions
from pocketmq.client.consumer.lite_settings import LitePullOptions, LitePullSettings
from pocketmq.client.consumer.settings import PushOptions, PushSettings
from pocketmq.client.producer.options import ProducerOptions
from pocketmq.client.producer.settings import ProducerSettings


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (PushOptions, PushSettings),
        (LitePullOptions, LitePullSettings),
        (ProducerOptions, ProducerSettings),
    ],
)
def test_every_setting_can_be_given_and_nothing_else(options: type, settings: type) -> None:
    shared = get_type_hints(ClientOptions)
    own = {name: kind for name, kind in get_type_hints(options).items() if name not in shared}
    hints = get_type_hints(settings)
    assert own == {each.name: hints[each.name] for each in fields(settings)}
