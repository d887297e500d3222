"""Options of members, and the secret that they name."""

from __future__ import annotations

import asyncio
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import structlog

from pocketmq.operation.tls.options import TlsOptions
from pocketmq.protocol.member_proof import Secret, Secrets
from pocketmq.runtime.configuration.options import option
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.words import counted

log = structlog.get_logger()

MEMBER_VARIABLE: Final = "POCKETMQ_MEMBER_SECRET_FILE"
"""Of clients and commands: the file with the secret of the cluster that they change."""

MOST_SECRETS: Final = 8
"""In one file."""

_MAKE: Final = "make one: (umask 077; openssl rand -hex 32 > FILE), the same for all members"


@dataclass(frozen=True, kw_only=True)
class SecurityOptions(TlsOptions):
    """TLS of a role, and whether it talks to members of its cluster only."""

    section: ClassVar[str] = "security"

    members_must_prove: bool = option(
        False,
        help="Nameservers, controllers and replication ports take requests of members only, which "
        "prove that they know the secret; needs TLS. RocketMQ's brokers cannot.",
    )
    member_secret_file: Path | None = option(
        None,
        help="File with the secret of all members, 32 bytes or more, that only its owner can read. "
        "Further lines are secrets that are accepted too; read again when it changes.",
    )

    def member_secret(self) -> SecretFile | None:
        """The file with the secret, where members must prove that they know it; else None.

        Raises:
            ConfigError: the file cannot be used, or TLS is off.
        """
        if not self.members_must_prove:
            return None
        # Both are needed: a role checks proofs at its ports and gives them on its own connections.
        if self.tls_server_mode == "disabled" or not self.tls_enable:
            raise ConfigError(
                "members_must_prove",
                "members prove who they are over TLS, which is off",
                advice="add --tls-enable, and --tls-server-mode permissive or enforcing",
            )
        if self.member_secret_file is None:
            raise ConfigError("member_secret_file", "no file is named", advice=_MAKE)
        return SecretFile(self.member_secret_file)


class SecretFile:
    """A file with secrets, which may change.

    Args:
        path: Of the file.

    Raises:
        ConfigError: as `read_secrets`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.secrets = read_secrets(path)
        """As they were when the file could last be used."""
        self._refused = ""
        """Why it cannot be used now, which the log has said."""

    async def look(self) -> Secrets | None:
        """The secrets if they have changed since the last look, else None.

        A file that cannot be used changes nothing, and the log says why.
        """
        try:
            # In a thread, as the file may lie on a disk that is slow or away.
            found = await asyncio.to_thread(read_secrets, self._path)
        except ConfigError as exc:
            if self._refused != str(exc):
                self._refused = str(exc)
                log.error(
                    "member.secret_refused",
                    reason=str(exc),
                    what_now="the secrets stay as they are",
                )
            return None
        self._refused = ""
        if found == self.secrets:
            return None
        self.secrets = found
        log.info("member.secret_loaded", secrets=1 + len(found.others))
        return found


def read_secrets(path: Path) -> Secrets:
    """The secrets in a file, one in a line: first the one to prove with, then others to accept.

    Raises:
        ConfigError: it cannot be read, others than its owner can read it, one is too short, or
            there are too many.
    """
    path = path.expanduser()
    try:
        mode = path.stat().st_mode
        text = path.read_bytes()
    except OSError as exc:
        raise ConfigError(
            "member_secret_file", f"{path}: {exc.strerror or exc}", advice=_MAKE
        ) from exc
    # As `ssh` does with its keys: a secret that others may read proves nothing.
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(
            "member_secret_file", f"others than its owner may use {path}",
            advice=f"chmod 600 {path}",
        )  # fmt: skip
    lines = [line.strip() for line in text.strip().split(b"\n")]
    # Each costs a hash for each wrong proof.
    if len(lines) > MOST_SECRETS:
        raise ConfigError(
            "member_secret_file",
            f"{path} has {counted(len(lines), 'line')}, each a secret, and may have {MOST_SECRETS}",
            advice="delete those that no member proves with any more",
        )
    try:
        own, *others = [Secret(line) for line in lines]
    except ValueError as exc:
        raise ConfigError("member_secret_file", f"{path}: {exc}", advice=_MAKE) from exc
    return Secrets(own, tuple(others))
