"""Builds the access subject."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import structlog

from pocketmq.broker.access.access_processor import AccessProcessor
from pocketmq.broker.access.guard import AccessGuard, AccessRules
from pocketmq.broker.access.plain.accounts import PlainAclError
from pocketmq.broker.access.plain.files import PlainAclFiles, contents, parsed
from pocketmq.broker.access.plain.migration import migrated
from pocketmq.broker.access.plain.plain_guard import PlainGuard
from pocketmq.broker.access.plain.plain_processor import PlainAccessProcessor
from pocketmq.broker.access.table import load_into, table_of
from pocketmq.broker.access.users import Accounts
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.subject import Service, Subject
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.protocol.bodies.access import AccessTable
from pocketmq.protocol.guarded_dispatch import Guard
from pocketmq.runtime.errors import ConfigError

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access(Subject):
    """What the broker uses of it."""

    accounts: Accounts
    guard: Guard | None
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


class _Migration(Service):
    """Makes users of the accounts of ACL 1.0 at each start; those that are there stay (Y-50).

    Args:
        accounts: Gets them.
        path: The default file.
    """

    def __init__(self, accounts: Accounts, path: Path) -> None:
        self._accounts = accounts
        self._path = path

    async def load(self) -> None:
        try:
            found = list(migrated(parsed(await asyncio.to_thread(contents, self._path))))
        except PlainAclError as exc:
            raise ConfigError("plain_acl_file", f"{self._path}: {exc}") from exc
        new = [each for each in found if each[0].username not in self._accounts.users]
        for user, acl in new:
            self._accounts.create(user)
            if acl is not None:
                self._accounts.keep(acl)
        log.info("acl.migrated", users=len(new), known=len(found) - len(new))


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
    # Brokers authenticate as this user when they call each other, so each must have it.
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
    guard: Guard | None = None
    if rules.authentication or rules.authorization:
        guard = AccessGuard(accounts, rules)
    # The order matters: the file is loaded before the configured users are added to it.
    services: list[Service] = [saved, _InitialUsers(accounts, users)]
    plain_file = config.plain_acl_file or Path(core.store.root) / "config" / "plain_acl.yml"
    if config.migrate_auth_from_v1_enabled:
        services.append(_Migration(accounts, plain_file))
    # As in RocketMQ 5.3.3, `acl_enable` alone protects nothing: the option exists, but nothing
    # reads it. Warn, so that nobody takes the broker for protected.
    if config.acl_enable and not core.profile.broker.plain_acl:
        log.warning("acl.without_effect", advice="ACL 1.0 needs profile 4.9; use users and rules")
    plain_files: PlainAclFiles | None = None
    if config.acl_enable and core.profile.broker.plain_acl:
        if guard is not None:
            raise ConfigError(
                "acl_enable",
                "ACL 1.0 and users with rules cannot be on at the same time",
                advice="turn one off",
            )
        guard = plain = PlainGuard()
        plain_files = PlainAclFiles(plain_file, core.clock, plain.use)
        services.append(plain_files)
    return Access(
        accounts=accounts,
        guard=guard,
        tools=(
            AccessProcessor(accounts, saved, core.budget),
            PlainAccessProcessor(plain_files, core),
        ),
        services=tuple(services),
    )
