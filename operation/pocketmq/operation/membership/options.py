"""Options of members, and the secret that they name."""

from __future__ import annotations

import asyncio
import stat
import threading
from concurrent.futures import Future
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
        help=(
            "Nameservers, controllers and replication ports accept requests only from "
            "processes that know the cluster's secret. This option needs TLS. RocketMQ's "
            "brokers cannot be part of such a cluster."
        ),
    )
    member_secret_file: Path | None = option(
        None,
        help=(
            "File with the secret that all members share. The secret has at least 32 "
            "bytes. Only the file's owner may have the right to read the file. The file "
            "may contain more secrets, one on each line, which the role also accepts. When "
            "the file changes, the role reads the file again."
        ),
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
                "it needs TLS, which is off",
                advice="add --tls-enable, and set --tls-server-mode to permissive or enforcing",
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
        self._fault = ""
        """Why it cannot be used now."""
        # What the log has said.
        self._told = self.secrets
        self._told_fault = ""
        # Clients of several loops, each with its thread, may look at one file.
        self._lock = threading.Lock()
        self._reading: Future[None] | None = None
        self._begun = 0
        self._ended = 0

    async def look(self) -> Secrets:
        """The secrets as the file has them now.

        A file that cannot be used changes nothing, and the log says why.
        """
        # A read that was begun before may have seen the file before its last change.
        before = self._begun
        while self._ended <= before:
            await asyncio.wrap_future(self._next())
        self._say()
        return self.secrets

    # -- inside -----------------------------------------------------------------------------

    def _next(self) -> Future[None]:
        """The read that is under way, or else a new one.

        There is one at a time: two could end in the other order, and the older one bring back a
        secret that was revoked. And of a disk that is away, each would hold one more thread.
        """
        with self._lock:
            reading = self._reading
            if reading is None or reading.done():
                reading = Future()
                # Who waits for it may be cancelled, which must not cancel it for the others.
                reading.set_running_or_notify_cancel()
                self._begun += 1
                # In a thread, as the file may lie on a disk that is slow or away.
                asyncio.get_running_loop().run_in_executor(None, self._read, reading)
                self._reading = reading
            return reading

    def _read(self, reading: Future[None]) -> None:
        try:
            self.secrets = read_secrets(self._path)
            self._fault = ""
        except ConfigError as exc:
            self._fault = str(exc)
        finally:
            self._ended += 1
            reading.set_result(None)

    def _say(self) -> None:
        if self._told_fault != self._fault:
            self._told_fault = self._fault
            if self._fault:
                log.error(
                    "member.secret_refused",
                    reason=self._fault,
                    what_now="the secrets stay as they are",
                )
        if self._told != self.secrets:
            self._told = self.secrets
            log.info("member.secret_loaded", secrets=1 + len(self.secrets.others))


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
            "member_secret_file",
            f"{path} must be accessible only to its owner, but other users may read or write it",
            advice=f"chmod 600 {path}",
        )
    lines = [line.strip() for line in text.strip().split(b"\n")]
    # Each costs a hash for each wrong proof.
    if len(lines) > MOST_SECRETS:
        raise ConfigError(
            "member_secret_file",
            f"{path} has {counted(len(lines), 'line')}, but may have at most {MOST_SECRETS} "
            "secrets, one on each line",
            advice="delete the lines with secrets that no member uses any more",
        )
    try:
        own, *others = [Secret(line) for line in lines]
    except ValueError as exc:
        raise ConfigError("member_secret_file", f"{path}: {exc}", advice=_MAKE) from exc
    return Secrets(own, tuple(others))
