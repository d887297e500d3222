"""`pocketmq user` and `pocketmq acl`: who is known to the brokers, and who may do what (Y-48)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from pocketmq.client import Admin
from pocketmq.cluster.access_explain import Explanation, explained, need_of
from pocketmq.cluster.access_export import mqadmin_lines
from pocketmq.cluster.cli.common.complete import Brokers, complete_broker
from pocketmq.cluster.cli.common.output import Output, Sentences, show, tell
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    run,
)
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.explain.refusals import version_told
from pocketmq.protocol.bodies.access import AclInfo, UserInfo
from pocketmq.protocol.releases import version_number
from pocketmq.runtime.errors import CallerError

USER_LIST_HELP = """List the users that the brokers know, without passwords.

\b
Examples:
  pocketmq user list
  pocketmq user list -o json
"""

USER_CREATE_HELP = """Create a user on every broker.

Clients use the user's name as access key, and the password as secret key. Without --password, the
command asks for the password.

\b
Examples:
  pocketmq user create shop --password secret
  pocketmq user create office --password secret --super
"""

USER_UPDATE_HELP = """Change a user's password, type or status on every broker.

\b
Examples:
  pocketmq user update shop --password other
  pocketmq user update shop --disable
"""

USER_DELETE_HELP = """Delete a user and its rules on every broker.

\b
Examples:
  pocketmq user delete shop
"""

ACL_LIST_HELP = """List what users may do.

\b
Examples:
  pocketmq acl list
  pocketmq acl list --user shop -o json
"""

ACL_GRANT_HELP = """Add a rule to a user on every broker.

If the user has a rule about the same resource, the new rule replaces that rule. Examples of
resources: Topic:orders, Group:bill*, Topic:*, Cluster:DefaultCluster, *. Possible actions: Pub,
Sub, Create, Update, Delete, Get, List, All. A producer needs Pub on its topic. A consumer needs Sub
on its topic and on its group.

\b
Examples:
  pocketmq acl grant shop Topic:orders Pub,Sub
  pocketmq acl grant shop Topic:orders-secret All --deny
  pocketmq acl grant shop Group:bill* Sub --from 10.0.0.0/8
"""

ACL_REVOKE_HELP = """Remove one rule of a user, or all its rules, on every broker.

\b
Examples:
  pocketmq acl revoke shop Topic:orders
  pocketmq acl revoke shop
"""

ACL_EXPORT_HELP = """Print mqadmin commands that create the brokers' users and rules.

RocketMQ cannot read PocketMQ's file of users and rules. With the printed commands, you can create
the same users and rules in RocketMQ. Without --with-secrets, the word PASSWORD stands in place of
each password.

\b
Examples:
  pocketmq acl export
  pocketmq acl export --with-secrets --cluster DefaultCluster \\
      -n 127.0.0.1:9876 > users.sh
"""

ACL_EXPLAIN_HELP = """Show whether a user may do an action, and which rule decides.

The command asks every broker for the user's rules. It applies the rules in the same order as the
broker's release does. The exit status is 1 if a broker would refuse the action.

\b
Examples:
  pocketmq acl explain shop Pub Topic:orders
  pocketmq acl explain shop Sub Group:billing --from 10.1.2.3
"""

Username = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    user = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    user.command("list", help=USER_LIST_HELP)(list_users)
    user.command("create", help=USER_CREATE_HELP)(create_user)
    user.command("update", help=USER_UPDATE_HELP)(update_user)
    user.command("delete", help=USER_DELETE_HELP)(delete_user)
    app.add_typer(user, name="user", help="Users that brokers take requests from.")
    acl = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    acl.command("list", help=ACL_LIST_HELP)(list_rules)
    acl.command("grant", help=ACL_GRANT_HELP)(grant)
    acl.command("revoke", help=ACL_REVOKE_HELP)(revoke)
    acl.command("explain", help=ACL_EXPLAIN_HELP)(explain)
    acl.command("export", help=ACL_EXPORT_HELP)(export)
    app.add_typer(acl, name="acl", help="Rules that say what each user may do.")


def list_users(output: Output = None, nameservers: Nameservers = DEFAULT_NAMESERVERS) -> None:
    async def command() -> dict[str, list[UserInfo]]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await admin.users()

    found = run(command())
    table = user_table(found)
    show(output, [dict(zip(table.columns, row, strict=True)) for row in table.rows], table)


def create_user(
    user: Username,
    password: Annotated[str, typer.Option(prompt=True, hide_input=True, help="Its secret key.")],
    is_super: Annotated[bool, typer.Option("--super", help="It may do all.")] = False,
    broker: Brokers = None,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> None:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            await admin.create_user(user, password, is_super=is_super, brokers=broker)

    run(command())
    kind = "super user" if is_super else "user"
    tell(output, {"user": user, "super": is_super}, f"{kind} {user} is created")


def update_user(
    user: Username,
    password: Annotated[str | None, typer.Option(help="Its new secret key.")] = None,
    is_super: Annotated[
        bool | None, typer.Option("--super/--normal", help="Whether it may do all.")
    ] = None,
    is_enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether it may do anything.")
    ] = None,
    broker: Brokers = None,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    # Refused here: a broker would accept an update without a field, and change nothing.
    if password is None and is_super is None and is_enabled is None:
        raise CallerError("nothing to change: give an option, such as --disable")

    async def command() -> None:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            await admin.update_user(
                user, password=password, is_super=is_super, is_enabled=is_enabled, brokers=broker
            )

    run(command())
    tell(output, {"user": user}, f"user {user} is changed")


def delete_user(
    user: Username,
    broker: Brokers = None,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> None:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            await admin.delete_user(user, brokers=broker)

    run(command())
    tell(output, {"user": user}, f"user {user} is deleted with its rules")


def list_rules(
    user: Annotated[
        str | None, typer.Option(help="Show only rules of users whose name contains this text.")
    ] = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> dict[str, list[AclInfo]]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await admin.rules(user)

    table = rule_table(run(command()))
    show(output, [dict(zip(table.columns, row, strict=True)) for row in table.rows], table)


def grant(
    user: Username,
    resource: Annotated[str, typer.Argument(help="As Topic:orders, Group:bill*, *.")],
    actions: Annotated[str, typer.Argument(help="Separated by commas.")],
    deny: Annotated[bool, typer.Option("--deny", help="Forbid, in place of allow.")] = False,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help=(
                "Address or network of the clients for which the rule holds. The option may be "
                "repeated."
            ),
        ),
    ] = None,
    broker: Brokers = None,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    words = [each.strip() for each in actions.split(",") if each.strip()]

    async def command() -> None:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            await admin.grant(
                user,
                [resource],
                words,
                is_allowed=not deny,
                source_ips=source or (),
                brokers=broker,
            )

    run(command())
    verb = "may not" if deny else "may"
    facts = {"user": user, "resource": resource, "actions": words, "allowed": not deny}
    tell(output, facts, f"user {user} {verb} {', '.join(words)} on {resource}")


def revoke(
    user: Username,
    resource: Annotated[
        str | None,
        typer.Argument(
            help=(
                "Resource of the rule to remove. Without a resource, all rules of the user are "
                "removed."
            )
        ),
    ] = None,
    broker: Brokers = None,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> None:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            await admin.revoke(user, resource, brokers=broker)

    run(command())
    what = "all rules are" if resource is None else f"the rule on {resource} is"
    tell(output, {"user": user, "resource": resource}, f"{what} taken from user {user}")


def explain(
    user: Username,
    action: Annotated[
        str, typer.Argument(help="Action to check: Pub, Sub, Create, Update, Delete, Get or List.")
    ],
    resource: Annotated[str, typer.Argument(help="One, as Topic:orders.")],
    source: Annotated[str, typer.Option("--from", help="Address of the client.")] = "127.0.0.1",
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    need = need_of(action, resource)

    async def command() -> list[Explanation]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            users, rules = await admin.users(user), await admin.rules(user)
            return [
                explained(
                    broker,
                    # Brokers return all users whose name contains this one.
                    next((each for each in users[broker] if each.username == user), None),
                    [each for each in rules[broker] if each.subject == f"User:{user}"],
                    need,
                    source,
                    # Asked for each broker: releases may be mixed while a cluster is upgraded.
                    longest_prefix_first=await _is_from_5_4(admin, broker),
                )
                # Each broker keeps its own users, so all are shown: a single one may refuse.
                for broker in users
            ]

    found = run(command())
    lines: list[str] = []
    for each in found:
        verdict = "allowed" if each.is_allowed else "refused"
        lines.append(f"{each.broker}: {verdict}, {each.reason}")
        lines += [f"  also matches: {rule}" for rule in each.rules[1:]]
        if each.warning:
            lines.append(f"  beware: {each.warning}")
    tell(output, [asdict(each) for each in found], *lines)
    if not all(each.is_allowed for each in found):
        raise typer.Exit(1)


def export(
    cluster: Annotated[
        str, typer.Option(help="RocketMQ's cluster that shall get them.")
    ] = "DefaultCluster",
    broker: Annotated[
        str | None,
        typer.Option(
            help="Of this broker; needed where brokers differ.", autocompletion=complete_broker
        ),
    ] = None,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Write the passwords, too.")
    ] = False,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    asked = None if broker is None else [broker]

    async def command() -> list[tuple[list[UserInfo], list[AclInfo]]]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            users, rules = await admin.users(brokers=asked), await admin.rules(brokers=asked)
            return [(users[each], rules[each]) for each in users]

    found = run(command())
    # One list is written for all brokers; if they differ, only the user knows which one is right.
    if any(each != found[0] for each in found):
        raise CallerError(
            "the brokers have different users or rules; choose one broker with --broker"
        )
    lines = mqadmin_lines(*found[0], cluster=cluster, with_secrets=with_secrets)
    tell(output, {"lines": lines}, *lines)


async def _is_from_5_4(admin: Admin, broker: str) -> bool:
    """Whether that broker's release has the later order of rules; of V5_3_3 it has not."""
    # RocketMQ changed the order of rules in 5.4.0.
    return version_told(await admin.broker_runtime_info(broker)) >= version_number(5, 4, 0)


def user_table(found: dict[str, list[UserInfo]]) -> Table:
    """Users by broker; their passwords are not shown."""
    return Table(
        "user",
        ("broker", "user", "type", "status"),
        [
            (broker, each.username, each.user_type, each.user_status)
            for broker, users in found.items()
            for each in users
        ],
    )


def rule_table(found: dict[str, list[AclInfo]]) -> Table:
    """Rules by broker and user, in their order."""
    return Table(
        "rule",
        ("broker", "user", "policy", "resource", "decision", "actions", "from"),
        [
            (
                broker,
                (acl.subject or "").removeprefix("User:"),
                policy.policy_type,
                entry.resource,
                entry.decision,
                ",".join(entry.actions or ()),
                ",".join(entry.source_ips or ()) or None,
            )
            for broker, acls in found.items()
            for acl in acls
            for policy in acl.policies or ()
            for entry in policy.entries or ()
        ],
    )
