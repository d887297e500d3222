"""`pocketmq user` and `pocketmq acl`: users, rules, and why (Y-45 to Y-48)."""

from __future__ import annotations

import shlex

import pytest

from pocketmq.cluster.access_explain import explained, need_of
from pocketmq.cluster.access_export import mqadmin_lines
from pocketmq.protocol.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from pocketmq.runtime.errors import ConfigError
from pocketmq.testing import Cluster
from support.console import Console

SHOP = UserInfo(username="shop", user_type="Normal", user_status="enable")


def test_users_and_rules_are_made_shown_and_taken(
    pocketmq_clock: Cluster, console: Console
) -> None:
    console("user", "create", "shop", "--password", "s3cret")
    console("acl", "grant", "shop", "Topic:orders", "Pub,Sub")
    console("acl", "grant", "shop", "Group:bill*", "Sub", "--from", "10.0.0.0/8")

    users = console("user", "list")
    assert "s3cret" not in users.out
    assert users.rows == [["broker-a", "shop", "Normal", "enable"]]
    listed = console("acl", "list", "-o", "json").json
    assert [(each["resource"], each["actions"], each["from"]) for each in listed] == [
        ("Topic:orders", "Pub,Sub", None),
        ("Group:bill*", "Sub", "10.0.0.0/8"),
    ]
    said = console("acl", "explain", "shop", "Sub", "Group:billing", "--from", "10.1.2.3").out
    assert "broker-a: allowed, Allow Sub on Group:bill* from 10.0.0.0/8 decides" in said

    console("user", "update", "shop", "--disable")
    console("acl", "revoke", "shop", "Topic:orders")
    console("user", "delete", "shop")
    assert console("acl", "list", "-o", "json").json == []


def test_what_brokers_refuse_is_told(pocketmq_clock: Cluster, console: Console) -> None:
    assert "The user is not exist" in console("user", "update", "no", "--disable").error
    assert "is not exist" in console("acl", "grant", "no", "Topic:a", "Pub").error
    assert "nothing to change" in console("user", "update", "no").error
    assert "'Dance' is none" in console("acl", "explain", "no", "Dance", "Topic:a").error


@pytest.mark.parametrize("resource", ["Topic:o*", "*", "Robot:x", "Topic:"])
def test_what_is_asked_about_is_one_thing(resource: str) -> None:
    with pytest.raises(ConfigError):
        need_of("Pub", resource)


@pytest.mark.parametrize(
    ("longest", "is_allowed", "warns"), [(True, False, False), (False, True, True)]
)
def test_the_order_of_a_release_is_explained(longest: bool, is_allowed: bool, warns: bool) -> None:
    entries = [
        PolicyEntryInfo(resource="Topic:o*", actions=["Pub"], decision="Allow"),
        PolicyEntryInfo(resource="Topic:ord*", actions=["All"], decision="Deny"),
    ]
    rules = [AclInfo(subject="User:shop", policies=[PolicyInfo(entries=entries)])]

    found = explained(
        "broker-a", SHOP, rules, need_of("pub", "Topic:orders"), "10.0.0.1",
        longest_prefix_first=longest,
    )  # fmt: skip

    assert found.is_allowed is is_allowed
    assert len(found.rules) == 2
    assert bool(found.warning) is warns
    if warns:
        assert found.warning.startswith("Deny All on Topic:ord* matches too and does not count")


@pytest.mark.parametrize(
    ("user", "is_allowed", "reason"),
    [
        (None, False, "there is no such user"),
        (UserInfo(username="shop", user_status="disable"), False, "the user is disabled"),
        (UserInfo(username="shop", user_type="Super"), True, "a super user may do all"),
        (SHOP, False, "no rule matches"),
    ],
)
def test_without_a_rule_the_user_decides(
    user: UserInfo | None, is_allowed: bool, reason: str
) -> None:
    need = need_of("Pub", "Topic:orders")
    found = explained("a", user, [], need, "10.0.0.1", longest_prefix_first=True)

    assert (found.is_allowed, found.reason) == (is_allowed, reason)


def test_users_and_rules_are_exported_as_lines_of_mqadmin(
    pocketmq_clock: Cluster, console: Console
) -> None:
    console("user", "create", "shop", "--password", "s3cret's")
    console("user", "create", "boss", "--password", "0ther", "--super")
    console("user", "update", "shop", "--disable")
    console("acl", "grant", "shop", "Topic:orders*", "Pub,Sub", "--from", "10.0.0.0/8")
    console("acl", "grant", "shop", "*", "All", "--deny")

    assert console("acl", "export").out.splitlines() == [
        "mqadmin createUser -c DefaultCluster -u boss -p PASSWORD -t Super",
        "mqadmin createUser -c DefaultCluster -u shop -p PASSWORD -t Normal",
        "mqadmin updateUser -c DefaultCluster -u shop -s disable",
        "mqadmin createAcl -c DefaultCluster -s User:shop -r 'Topic:orders*' -a Pub,Sub"
        " -i 10.0.0.0/8 -d Allow",
        "mqadmin createAcl -c DefaultCluster -s User:shop -r '*' -a All -d Deny",
    ]
    lines = console("acl", "export", "--with-secrets", "--cluster", "c 1").out.splitlines()
    words = shlex.split(lines[1])
    assert words[words.index("-p") + 1] == "s3cret's"
    assert words[words.index("-c") + 1] == "c 1"


def test_a_default_policy_is_written_as_a_remark() -> None:
    entry = PolicyEntryInfo(resource="Topic:*", actions=["All"], decision="Deny")
    policy = PolicyInfo(policy_type="Default", entries=[entry])
    rules = [AclInfo(subject="User:shop", policies=[policy])]
    [line] = mqadmin_lines([], rules, cluster="c", with_secrets=False)
    assert line.startswith("# of type Default, which mqadmin cannot make: mqadmin createAcl")
