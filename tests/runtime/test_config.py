"""Options declared once; flags before environment before TOML before broker.conf before default."""

from __future__ import annotations

import argparse
import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from pocketmq.runtime.configuration.config import all_in, load, unknown_names
from pocketmq.runtime.configuration.flags import add_arguments
from pocketmq.runtime.configuration.options import clamped, describe, option
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.files.durable_file import DurableFile
from pocketmq.runtime.files.text_files import OsTextFiles


class Flush(enum.Enum):
    ASYNC = "ASYNC_FLUSH"
    SYNC = "SYNC_FLUSH"


@dataclass(frozen=True, kw_only=True)
class BrokerSample:
    section: ClassVar[str] = "broker"

    listen_port: int = option(10911, help="Port to listen on.", rocketmq_name="listenPort")
    nameservers: tuple[str, ...] = option((), help="Addresses.", rocketmq_name="namesrvAddr")
    flush: Flush = option(Flush.ASYNC, help="When to sync.", rocketmq_name="flushDiskType")
    auto_create_topic_enable: bool = option(True, help="100 % automatic.", rule="B-12")
    store_path: Path = option(Path("~/store"), help="Root.", rocketmq_name="storePathRootDir")
    role: Literal["master", "slave"] | None = option(None, help="Role.")
    period_s: float = option(30.0, help="Period.", unit="s", rule="B-3")
    password: str = option("", help="Secret.", secret=True)
    full_at: int = option(90, help="Level.", unit="%", clamped=(35, 90))


@dataclass(frozen=True, kw_only=True)
class StoreSample:
    section: ClassVar[str] = "broker.store"

    file_size: int = option(1 << 30, help="Log file.", unit="bytes")


def load_with(**sources: Any) -> BrokerSample:
    return load(BrokerSample, sources.pop("flags", {}), sources.pop("env", {}), **sources).config


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text("# a broker\nlistenPort = 1\nbrokerIP1=x\nflushDiskType: sync_flush\n")
    return path


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text("[broker]\nlisten_port = 2\n\n[broker.store]\nfile_size = 4_096\n")
    return path


def test_the_nearer_source_wins_and_its_name_is_kept(conf: Path, toml: Path) -> None:
    sources: list[dict[str, Any]] = [
        {"flags": {"listen_port": "4"}},
        {"env": {"POCKETMQ_BROKER_LISTEN_PORT": "3"}},
        {"toml_path": toml},
        {"broker_conf": conf},
    ]
    found = []
    for first in range(5):
        given_now: dict[str, Any] = {"flags": {}, "env": {}}
        for source in sources[first:]:
            given_now |= source
        loaded = load(BrokerSample, **given_now)
        found.append((loaded.config.listen_port, loaded.origins["listen_port"]))
    assert found == [
        (4, "flag --listen-port"),
        (3, "environment POCKETMQ_BROKER_LISTEN_PORT"),
        (2, f"{toml} broker.listen_port"),
        (1, f"{conf} listenPort"),
        (10911, "default"),
    ]


def test_dots_in_a_section_nest_toml_tables_and_join_environment_names(toml: Path) -> None:
    assert load(StoreSample, {}, {}, toml).config.file_size == 4096
    env = {"POCKETMQ_BROKER_STORE_FILE_SIZE": "8_192"}
    assert load(StoreSample, {}, env, toml).config.file_size == 8192


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("nameservers", "a:1; b:2 ;", ("a:1", "b:2")),
        ("flush", "sync_flush", Flush.SYNC),
        ("auto_create_topic_enable", "False", False),
        ("auto_create_topic_enable", "on", True),
        ("store_path", "/data", Path("/data")),
        ("role", "SLAVE", "slave"),
        ("role", "", None),
        ("period_s", "2.5", 2.5),
        ("listen_port", " 9876 ", 9876),
    ],
)
def test_text_becomes_the_declared_type(name: str, text: str, value: object) -> None:
    assert getattr(load_with(flags={name: text}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("listen_port", "80a", "'80a' is not a whole number"),
        ("listen_port", "1.5", "'1.5' is not a whole number"),
        ("period_s", "soon", "'soon' is not a number"),
        ("auto_create_topic_enable", "maybe", "'maybe' is not true or false"),
        ("flush", "never", "'never' is not one of ASYNC_FLUSH, SYNC_FLUSH"),
        ("full_at", "0.9", "'0.9' is not a whole number of percent: write 90"),
        ("full_at", "1.0", "'1.0' is not a whole number of percent: write 100"),
        ("full_at", "89.5", "'89.5' is not a whole number of percent: write 90"),
        ("full_at", "0.9.1", "'0.9.1' is not a whole number"),
    ],
)
def test_a_wrong_value_is_named_with_its_origin(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        load_with(env={f"POCKETMQ_BROKER_{name.upper()}": text})
    assert f"environment POCKETMQ_BROKER_{name.upper()}" in str(caught.value)


def test_a_fraction_in_toml_is_no_percentage(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[broker]\nfull_at = 1.0\n")
    with pytest.raises(ConfigError, match="percent: write 100"):
        load_with(toml_path=path)


@pytest.mark.parametrize(
    ("given", "counts_as"), [(-5, 35), (1, 35), (35, 35), (60, 60), (90, 90), (100, 90)]
)
def test_a_number_outside_its_bounds_counts_as_the_nearest(given: int, counts_as: int) -> None:
    config = load_with(flags={"full_at": str(given)})
    assert (config.full_at, clamped(config, "full_at")) == (given, counts_as)


def test_an_unknown_name_in_toml_is_an_error_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[broker]\nlisten_prot = 1\n")
    with pytest.raises(ConfigError, match="did you mean listen_port"):
        load_with(toml_path=path)


@pytest.mark.parametrize("name", ["brokerr", "brokers", "brooker", "Broker"])
def test_a_table_with_a_slip_in_its_name_is_an_error_with_a_hint(tmp_path: Path, name: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f"[{name}]\nlisten_port = 1\n")
    with pytest.raises(ConfigError, match=rf"\[{name}\] is no section.*did you mean \[broker\]"):
        load_with(toml_path=path)


def test_tables_of_other_roles_and_programs_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[nameserver]\nlisten_port = 1\n[tool.ours]\nbroker = 2\n[brokerr]\n[broker]\n")
    assert load_with(toml_path=path) == load_with()


@pytest.mark.parametrize("content", [b"[broker\n", b"broker = 1\n", b"\xff\xfe"])
def test_a_broken_toml_file_is_a_config_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"c\.toml"):
        load_with(toml_path=path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_with(toml_path=tmp_path / "absent.toml")


def test_unknown_names_elsewhere_are_listed_for_a_warning(conf: Path) -> None:
    env = {"POCKETMQ_BROKER_LISTEN_PROT": "1", "POCKETMQ_BROKER_STORE_FILE_SIZE": "1", "PATH": ""}
    assert unknown_names([BrokerSample, StoreSample], env, conf) == [
        "POCKETMQ_BROKER_LISTEN_PROT",
        "brokerIP1",
    ]


def test_descriptions_hold_what_help_and_reference_need() -> None:
    by_name = {each.name: each for each in describe(BrokerSample)}
    port, auto = by_name["listen_port"], by_name["auto_create_topic_enable"]
    assert (port.flag, port.env, port.toml, port.rocketmq_name) == (
        "--listen-port",
        "POCKETMQ_BROKER_LISTEN_PORT",
        "broker.listen_port",
        "listenPort",
    )
    assert auto.rocketmq_name == "autoCreateTopicEnable"
    assert (auto.type_name, auto.default, auto.rule) == ("bool", True, "B-12")
    assert by_name["flush"].choices == ("ASYNC_FLUSH", "SYNC_FLUSH")


def test_help_shows_defaults_and_survives_per_cent_signs() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, BrokerSample)
    text = " ".join(parser.format_help().split())
    assert "100 % automatic. [default: true]" in text
    assert "Period. [default: 30.0 s]" in text


def test_a_secret_is_not_shown_in_errors() -> None:
    @dataclass(frozen=True)
    class Sample:
        section: ClassVar[str] = "x"
        pin: int = option(0, help="Pin.", secret=True)

    with pytest.raises(ConfigError) as caught:
        load(Sample, {"pin": "12a4"}, {})
    assert "12a4" not in str(caught.value)


class Killed(BaseException):
    """Stands for SIGKILL."""


class DiesBetweenRenames(OsTextFiles):
    """The process is killed when the present content has become the backup."""

    async def rename(self, source: str, target: str) -> None:
        if source.endswith(".tmp"):
            raise Killed
        await super().rename(source, target)


async def test_a_process_killed_while_it_kept_its_options_starts_with_those_before(
    conf: Path,
) -> None:  # O-7
    with pytest.raises(Killed):
        await DurableFile(conf, DiesBetweenRenames()).replace("listenPort=7\n")
    assert load_with(broker_conf=conf).listen_port == 1
    assert all_in(conf)["brokerIP1"] == "x", "what is unknown here is kept, too"
    conf.with_name("broker.conf.bak").unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_with(broker_conf=conf)
    assert all_in(conf) == {}
