"""Which processes a cluster consists of, and with which command lines they start."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.cluster.spec import ClusterOptions, broker_names, cluster_spec
from pocketmq.runtime.configuration.config import load
from pocketmq.runtime.errors import ConfigError

DATA = Path("/data")


def option(command: list[str], flag: str) -> str:
    return command[command.index(flag) + 1]


def test_ports_are_rocketmqs_and_brokers_stand_ten_apart() -> None:
    spec = cluster_spec(ClusterOptions(nameservers=2, brokers=3), DATA)
    nameservers = [option(each.command(), "--port") for each in spec.nameservers]
    brokers = [option(each.command(), "--port") for each in spec.brokers]
    assert nameservers == ["9876", "9877"]
    assert brokers == ["10911", "10921", "10931"]


def test_any_port_lets_the_system_choose_each() -> None:
    spec = cluster_spec(ClusterOptions(nameservers=2, brokers=2, any_port=True), DATA)
    ports = {option(each.command(), "--port") for each in (*spec.nameservers, *spec.brokers)}
    assert ports == {"0"}


def test_each_broker_has_a_store_root_of_its_own_name() -> None:
    spec = cluster_spec(ClusterOptions(brokers=2), DATA)
    roots = [option(each.command(), "--data") for each in spec.brokers]
    assert roots == ["/data/broker-a", "/data/broker-b"]


def test_names_stay_unique_beyond_the_alphabet() -> None:
    names = broker_names(60)
    assert names[25:28] == ["broker-z", "broker-27", "broker-28"]
    assert len(set(names)) == 60


def test_a_cluster_without_a_nameserver_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="0 nameservers are too few; write 1 or more"):
        load(ClusterOptions, {"nameservers": 0}, {})


def test_a_clock_that_is_none_is_not_taken_for_the_real_one() -> None:
    with pytest.raises(ValueError, match="'fake' is not a kind of clock; write real or manual"):
        ClusterOptions(clock="fake")  # type: ignore[arg-type]


def test_toml_describes_the_cluster_and_is_handed_to_the_roles(tmp_path: Path) -> None:
    toml = tmp_path / "cluster.toml"
    toml.write_text('[cluster]\nbrokers = 2\nclock = "manual"\n[broker]\nbroker_permission = 4\n')
    options = load(ClusterOptions, {"brokers": None}, {}, toml).config
    assert (options.brokers, options.clock) == (2, "manual")
    spec = cluster_spec(options, DATA, config_path=toml)
    assert option(spec.brokers[0].command(), "--shared-config") == str(toml)


def test_copies_of_no_broker_are_refused() -> None:
    with pytest.raises(ValueError, match="but there are no brokers; give --brokers 1"):
        ClusterOptions(brokers=0, slaves=2)
    with pytest.raises(ValueError, match="but there are no brokers; give --brokers 1"):
        ClusterOptions(brokers=0, controllers=3, replicas=3)


def test_an_acting_master_is_told_to_name_servers_masters_and_slaves() -> None:  # Z-1
    spec = cluster_spec(ClusterOptions(slaves=2, acting_master=True), DATA)
    assert "--support-acting-master" in spec.nameservers[0].command()
    for each in (*spec.brokers, *spec.slaves):
        command = each.command()
        assert "--enable-slave-acting-master" in command
        assert "--slave-read-enable" in command
        assert option(command, "--total-replicas") == "3"
    plain = cluster_spec(ClusterOptions(slaves=1), DATA)
    assert "--support-acting-master" not in plain.nameservers[0].command()
    with pytest.raises(ConfigError, match="there are no slaves; add --slaves 1"):
        load(ClusterOptions, {"acting_master": True}, {})


def test_name_servers_alone_are_told_to_let_strangers_read_routes() -> None:
    options = ClusterOptions(tls=True, members_must_prove=True, strangers_read_routes=True)
    spec = cluster_spec(options, DATA)
    assert "--strangers-read-routes" in spec.nameservers[0].arguments
    assert "--strangers-read-routes" not in spec.brokers[0].arguments
    with pytest.raises(ConfigError, match="--strangers-read-routes needs --members-must-prove"):
        load(ClusterOptions, {"strangers_read_routes": True}, {})
