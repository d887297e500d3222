"""Users and rules as `config/access.json` has them."""

from __future__ import annotations

from pocketmq.broker.access.users import Accounts
from pocketmq.operation.access.infos import info_of, info_of_rules, policies_of, user_of
from pocketmq.operation.access.rules import Acl
from pocketmq.protocol.bodies.access import AccessTable


def table_of(accounts: Accounts) -> AccessTable:
    """What the file shall hold."""
    return AccessTable(
        users=[info_of(each) for _, each in sorted(accounts.users.items())],
        acls=[info_of_rules(each) for _, each in sorted(accounts.acls.items())],
    )


def load_into(accounts: Accounts, table: AccessTable) -> None:
    """Take over what the file holds.

    Raises:
        BadRuleError: somebody changed it, and a rule makes no sense now.
    """
    for each in table.users:
        user = user_of(each)
        accounts.users[user.username] = user
    for info in table.acls:
        if info.subject and info.policies:
            accounts.acls[info.subject] = Acl(info.subject, tuple(policies_of(info.policies)))
