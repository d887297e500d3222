"""`RoleTls`: TLS of one role: contexts of its ports and connections, renewed while it runs.

    when                                     the context of its ports
    test mode (RocketMQ's default)           a certificate is made at the first TLS peer
    files, at the start                      from the files; if they cannot be used there is none:
                                             TLS peers are hung up on, as by RocketMQ, until one of
                                             the files has changed, or has come
    files changed (looked at every 500 ms)   from the files; if they cannot be used, the one before

RocketMQ keeps the context of connections that a role makes. Here it is renewed as that of its
ports: a cluster whose roles trust one certificate could not get another one.

Connections that exist keep their context (Y-6).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import structlog

from pocketmq.operation.tls.certificate import make_certificate
from pocketmq.operation.tls.contexts import server_context
from pocketmq.operation.tls.options import TlsOptions
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.protocol.transport.tls.server_tls import ServerTls
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import ConfigError, MissingToolError

log = structlog.get_logger()

LOOK_S: Final = 0.5
"""Between two looks at the files, as in RocketMQ's FileWatchService (Y-6)."""

ReadFile = Callable[[Path], bytes | None]
"""What a file holds; None: it is not there, or cannot be read."""


def read_file(path: Path) -> bytes | None:
    """See `ReadFile`."""
    try:
        return path.read_bytes()
    except OSError:
        return None


class _Pair:
    """A certificate, its key and who is trusted: files of one context, and which have changed.

    Args:
        files: Which there are.
    """

    def __init__(self, files: Iterable[Path] = ()) -> None:
        self.files = frozenset(files)
        self._changed: set[Path] = set()
        """Since the files were used last."""

    def change(self, path: Path) -> None:
        """A file is another one."""
        if path in self.files:
            self._changed.add(path)

    def is_due(self, certificate: Path | None, key: Path | None, trust: Path | None) -> bool:
        """Whether to make the context anew: certificate and key only count together (Y-6).

        They are rarely written in one moment, and a new certificate with the old key would be
        refused. Trusted authorities have no counterpart to wait for.
        """
        own = {each.expanduser() for each in (certificate, key) if each is not None}
        is_due = bool(own) and own <= self._changed
        return is_due or (trust is not None and trust.expanduser() in self._changed)

    @property
    def has_changed(self) -> bool:
        """Whether any file has."""
        return bool(self._changed)

    def use(self) -> None:
        """The files as they are now are used, or were refused."""
        self._changed.clear()


class RoleTls:
    """TLS of one role.

    Args:
        options: As the role was started with.
        read: Reads the files that are watched.

    Raises:
        ConfigError: the role is to use TLS for its own connections, and cannot; or the file of
            options cannot be read.
    """

    def __init__(self, options: TlsOptions, *, read: ReadFile = read_file) -> None:
        self._given = options
        self._read = read
        # The options' file overrides given options, and is read again after each change.
        now = options.with_file()
        self._takes_files = not now.tls_test_mode_enable
        self._at_start = now
        self._context: ssl.SSLContext | None = None
        self._says_why = True
        """The log has not said yet why there is no certificate."""
        self._options_fault = ""
        """Why the file of options could not be read, as the log has said; while there is a fault,
        each look tries again."""
        self._seen: dict[Path, bytes] = {}
        """What the files hold that are there."""
        self._ports = _Pair()
        self._connections = _Pair()
        self.client: ClientTls | None = None
        """Of connections that the role makes; None: they are in plaintext."""
        # As in RocketMQ, the file does not decide this. A fault ends the start: the role could
        # reach nobody.
        if options.tls_enable:
            # Read the contents before loading: a change in between is then noticed.
            self._connections = _Pair(now.client_files)
            self._seen = self._contents()
            self.client = ClientTls(now.client_context())
        self.server: ServerTls | None = None
        """Of the role's ports; None: `disabled`."""
        if options.tls_server_mode == "disabled":
            return
        self.server = ServerTls(self._now, enforces=options.tls_server_mode == "enforcing")
        if self._takes_files:
            self._ports = _Pair(now.server_files)
            self._seen = self._contents() | self._seen
            # A fault does not end the role, whose port still serves plaintext.
            self._ports.use()
            self._load(now, "TLS peers are hung up on until the files are mended")

    @property
    def is_watching(self) -> bool:
        """Whether there are files to `watch`."""
        return bool(self._ports.files | self._connections.files)

    async def watch(self, clock: Clock) -> None:
        """Look at the files until cancelled.

        Args:
            clock: Of the files, which change in real time.
        """
        while True:
            await clock.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Renew the contexts of which files have changed.

        A file that is gone counts as unchanged: it is about to be replaced.
        """
        # In a thread, as files may lie on a disk that is slow or away.
        found = await asyncio.to_thread(self._contents)
        is_same = True
        for path, content in found.items():
            if content != self._seen.get(path):
                is_same = False
                self._seen[path] = content
                self._ports.change(path)
                self._connections.change(path)
        if is_same and not self._options_fault:
            return
        try:
            now = self._given.with_file()
        except ConfigError as exc:
            # Try again at the next look: the files will not change once more for that.
            if str(exc) != self._options_fault:
                self._options_fault = str(exc)
                self._keep(exc)
            return
        self._options_fault = ""
        # Use the present options: their file may name other files than at the start.
        if self._context is None and self._ports.has_changed:
            # There is no pair of before that still fits together, so each change may be the mend.
            self._load(now, "TLS peers are hung up on until the files are mended")
        elif self._ports.is_due(
            now.tls_server_cert_path, now.tls_server_key_path, now.tls_server_trust_cert_path
        ):
            self._ports.use()
            self._load(now, "connections go on with the certificate of before")
        if self._connections.is_due(
            now.tls_client_cert_path, now.tls_client_key_path, now.tls_client_trust_cert_path
        ):
            self._load_client(now)

    # -- inside -----------------------------------------------------------------------------

    def _now(self) -> ssl.SSLContext | None:
        # Make the certificate for the first peer and not at the start: it takes time and a package.
        if self._context is None and not self._takes_files:
            self._make()
        # Log this once: a peer that tries each second would fill the log.
        if self._context is None and self._says_why:
            self._says_why = False
            log.error("tls.unavailable", advice="TLS peers are hung up on; the log says why")
        return self._context

    def _make(self) -> None:
        """A certificate of one's own, whose files are gone before anybody connects."""
        try:
            with tempfile.TemporaryDirectory(prefix="pocketmq-tls-") as folder:
                # The context has read the files, so they are not needed any more.
                context = server_context(make_certificate(Path(folder)))
            self._context = self._at_start.limited(context)
        # `ConfigError`: versions or suites were named wrongly.
        except (MissingToolError, ConfigError, OSError) as exc:
            if self._says_why:
                self._says_why = False
                of_disk = {"advice": "is the temporary folder full?"}
                log.error(
                    "tls.unavailable",
                    reason=str(exc),
                    **(of_disk if isinstance(exc, OSError) else {}),
                )
        else:
            log.info("tls.certificate_made", advice="clients that check it need one of their own")

    def _load(self, options: TlsOptions, otherwise: str) -> None:
        try:
            self._context = options.server_context()
        except ConfigError as exc:
            self._keep(exc, otherwise)
        else:
            # A later fault is logged again.
            self._says_why = True
            log.info("tls.certificate_loaded", certificate=str(options.tls_server_cert_path))
            # An operator who set one of the two may believe that peers are checked.
            if options.tls_server_need_client_auth != "none" and not options.tls_server_auth_client:
                log.warning(
                    "tls.clients_unchecked",
                    reason="tls.server.need.client.auth without tls.server.authClient: any "
                    "certificate would do, so that none is asked for",
                )

    def _load_client(self, options: TlsOptions) -> None:
        assert self.client is not None  # else none of its files is watched
        try:
            self.client.context = options.client_context()
        except ConfigError as exc:
            # The changed files stay due: one was perhaps half written, and only it changes again.
            # Ports wait for both once more, as in RocketMQ (Y-6), which renews no connections.
            self._keep(exc, "the role connects as before")
        else:
            self._connections.use()
            log.info("tls.client_files_loaded", certificate=str(options.tls_client_cert_path))

    def _keep(self, exc: ConfigError, otherwise: str = "") -> None:
        log.error(
            "tls.certificate_refused", reason=str(exc),
            what_now=otherwise or "connections go on with the certificate of before",
        )  # fmt: skip

    def _contents(self) -> dict[Path, bytes]:
        found: dict[Path, bytes] = {}
        for path in self._ports.files | self._connections.files:
            with contextlib.suppress(OSError):
                content = self._read(path)
                if content is not None:
                    found[path] = content
        return found
