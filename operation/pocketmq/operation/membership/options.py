"""Options of members, and the secret that they name."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from pocketmq.operation.tls.options import TlsOptions
from pocketmq.protocol.member_proof import Secret
from pocketmq.runtime.configuration.options import option
from pocketmq.runtime.errors import ConfigError

MEMBER_VARIABLE: Final = "POCKETMQ_MEMBER_SECRET_FILE"
"""Of clients and commands: the file with the secret of the cluster that they change."""

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
        help="File with the secret of all members, 32 bytes or more, that only its owner can read.",
    )

    def member_secret(self) -> Secret | None:
        """The secret, where members must prove that they know it; else None.

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
        return read_secret(self.member_secret_file)


def read_secret(path: Path) -> Secret:
    """The secret in a file.

    Raises:
        ConfigError: it cannot be read, others than its owner can read it, or it is too short.
    """
    path = path.expanduser()
    try:
        mode = path.stat().st_mode
        # Editors end a file with a line feed, which is no part of the secret.
        text = path.read_bytes().strip()
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
    try:
        return Secret(text)
    except ValueError as exc:
        raise ConfigError("member_secret_file", f"{path}: {exc}", advice=_MAKE) from exc
