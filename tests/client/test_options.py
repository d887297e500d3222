"""A client's keyword arguments and its settings name the same things, of the same types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import get_type_hints

import pytest

from pocketmq.client import Admin, Producer, PullConsumer, PushConsumer
from pocketmq.client.config import ClientConfig, ClientOptions
from pocketmq.client.consumer.pull.lite_settings import LitePullOptions, LitePullSettings
from pocketmq.client.consumer.settings import PushOptions, PushSettings
from pocketmq.client.producer.options import ProducerOptions
from pocketmq.client.producer.settings import ProducerSettings
from pocketmq.runtime.errors import ConfigError


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda **slip: Producer("p", **slip), "ProducerSettings has no option name_servers"),
        (lambda **slip: PushConsumer("g", **slip), "PushSettings has no option name_servers"),
        (lambda **slip: PullConsumer("g", **slip), "this client has no option name_servers"),
        (lambda **slip: Admin(**slip), "this client has no option name_servers"),
    ],
    ids=["Producer", "PushConsumer", "PullConsumer", "Admin"],
)
def test_a_slip_in_an_option_s_name_is_told_with_the_right_one(
    make: Callable[..., object], message: str
) -> None:
    with pytest.raises(TypeError, match=f"{message}; did you mean nameservers"):
        make(name_servers="127.0.0.1:9876")


@pytest.mark.parametrize(
    ("given", "variable", "found_ms"),
    [
        (None, "", 3_000),
        (None, "10000", 10_000),
        (500, "10000", 500),
    ],
)
def test_the_environment_says_how_long_answers_may_take(
    given: int | None, variable: str, found_ms: int
) -> None:
    options: ClientOptions = {"nameservers": "127.0.0.1:9876"}
    if given is not None:
        options["api_timeout_ms"] = given
    env = {"POCKETMQ_API_TIMEOUT_MS": variable}
    assert ClientConfig.of(options, env).api_timeout_ms == found_ms


@pytest.mark.parametrize("word", ["soon", "0", "-3", "1.5"])
def test_a_timeout_of_the_environment_that_is_none_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=r"POCKETMQ_API_TIMEOUT_MS.*not a number above 0"):
        ClientConfig.of({}, {"POCKETMQ_API_TIMEOUT_MS": word})
