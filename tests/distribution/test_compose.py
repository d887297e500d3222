"""The compose file: what it publishes is what brokers tell, and nothing more is open."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.dockerfile import steps_of

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
IMAGE = steps_of((ROOT / "Dockerfile").read_text())

KNOWN = {
    "build", "cap_drop", "depends_on", "entrypoint", "environment", "image", "network_mode",
    "ports", "profiles", "read_only", "security_opt", "tmpfs", "volumes",
}  # fmt: skip
"""Keys of a service in the compose specification, of which these are used."""


def test_every_key_is_one_of_the_specification() -> None:
    assert set(COMPOSE) == {"services", "volumes"}
    for service in COMPOSE["services"].values():
        assert set(service) <= KNOWN


def test_each_port_is_published_under_its_own_number_to_this_machine_only() -> None:
    exposed = next(step.rest for step in IMAGE if step.word == "EXPOSE").split()
    published = [each.split(":") for each in COMPOSE["services"]["pocketmq"]["ports"]]
    assert {host for host, _, _ in published} == {"127.0.0.1"}
    assert all(outside == inside for _, outside, inside in published)
    assert {inside for _, _, inside in published} == set(exposed)


def test_the_broker_tells_the_address_under_which_it_is_published() -> None:
    settings = COMPOSE["services"]["pocketmq"]["environment"]
    in_image = next(step.rest for step in IMAGE if step.word == "ENV")
    assert settings["POCKETMQ_BROKER_BROKER_IP1"] == "${ADVERTISE:-127.0.0.1}"
    for name in settings:
        page = ROOT / "docs" / ("control.md" if name.endswith("TOKEN") else "generated/config.md")
        assert f"`{name}`" in page.read_text()
    assert "POCKETMQ_BROKER_BROKER_IP1=127.0.0.1" in in_image


def test_volumes_are_declared_and_mounted_where_the_image_keeps_its_data() -> None:
    (mounted,) = COMPOSE["services"]["pocketmq"]["volumes"]
    name, _, place = mounted.partition(":")
    assert name in COMPOSE["volumes"]
    assert place in [step.rest for step in IMAGE if step.word == "VOLUME"]


def test_a_client_in_a_container_shares_the_network_and_waits_for_health() -> None:
    client = COMPOSE["services"]["client"]
    assert client["network_mode"] == "service:pocketmq"
    assert client["depends_on"] == {"pocketmq": {"condition": "service_healthy"}}
    assert client["image"] == COMPOSE["services"]["pocketmq"]["image"]
    assert any(step.word == "HEALTHCHECK" for step in IMAGE)


@pytest.mark.parametrize("page", ["docs/install.md"])
def test_the_page_explains_what_the_file_says(page: str) -> None:
    text = (ROOT / page).read_text()
    for word in ("network_mode: service:pocketmq", "ADVERTISE", "brokerIP1"):
        assert word in text
    for command in re.findall(r"`(docker compose [^`]+)`", TEXT):
        assert command in text
