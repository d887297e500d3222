"""Builds the access subject."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.access.access_processor import AccessProcessor
from pocketmq.broker.access.guard import AccessGuard, AccessRules
from pocketmq.broker.access.infos import load_into, table_of
from pocketmq.broker.access.users import Accounts
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.subject import Service, Subject
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.protocol.bodies.access import AccessTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Access(Subject):
    """What the broker uses of it."""

    accounts: Accounts
    guard: AccessGuard | None
    """None where neither switch is on: then nothing is checked, and checking costs nothing."""


class _InitialUsers(Service):
    """Makes the users that the options name, once the table is read (Y-40).

    Args:
        accounts: Gets them.
        users: Names and passwords.
    """

    def __init__(self, accounts: Accounts, users: list[tuple[str, str]]) -> None:
        self._accounts = accounts
        self._users = users

    async def load(self) -> None:
        for username, password in self._users:
            self._accounts.ensure_super(username, password)


def assemble_access(core: BrokerCore) -> Access:
    """Users, rules, their requests, and what checks all others.

    Raises:
        ConfigError: an option cannot be read.
    """
    config = core.config
    accounts = Accounts()
    file = core.table_file(
        "access.json",
        AccessTable,
        lambda table: load_into(accounts, table),
        lambda: table_of(accounts),
    )
    saved = SavedTable("access", file.save, core.clock, file.load)
    accounts.changed.connect(saved.changed)
    users = [config.initial_user] if config.initial_user else []
    inner = config.inner_credentials
    if inner is not None:
        users.append((inner.access_key, inner.secret_key))
    rules = AccessRules(
        authentication=config.authentication_enabled,
        authorization=config.authorization_enabled,
        unauthenticated_codes=config.white_codes("authentication_whitelist"),
        unauthorized_codes=config.white_codes("authorization_whitelist"),
        cluster=config.cluster_name,
        longest_prefix_first=core.profile.broker.longest_prefix_decides,
        retry_sends_may_name_group=core.profile.broker.retry_sends_may_name_group,
    )
    is_on = rules.authentication or rules.authorization
    return Access(
        accounts=accounts,
        guard=AccessGuard(accounts, rules) if is_on else None,
        tools=(AccessProcessor(accounts, saved, core.budget),),
        services=(saved, _InitialUsers(accounts, users)),
    )
