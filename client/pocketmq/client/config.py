"""Options that producers, consumers and admin clients share, and a client's identity (P-1)."""

from __future__ import annotations

import functools
import itertools
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final, NamedTuple, TypedDict, TypeVar

from pocketmq.client.joined_clocks import clock_for
from pocketmq.client.name_servers import parse_addresses
from pocketmq.operation.events.sink import SinkMaker, no_events
from pocketmq.operation.membership.members import Members
from pocketmq.operation.membership.network import MemberNetwork
from pocketmq.operation.membership.options import MEMBER_VARIABLE, SecretFile
from pocketmq.operation.tls.contexts import client_tls
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.addresses import as_written, split_address
from pocketmq.runtime.arguments import check_names
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.configuration.option_types import as_type
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.profile import DEFAULT_PROFILE, Profile, profile_named

NAMESRV_ADDR: Final = "NAMESRV_ADDR"
"""Environment variable with the name servers, as in RocketMQ."""

ACCESS_KEY_VARIABLE: Final = "POCKETMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "POCKETMQ_SECRET_KEY"  # noqa: S105 - the name of a variable

TLS_VARIABLE: Final = "POCKETMQ_TLS"
CA_FILE_VARIABLE: Final = "POCKETMQ_TLS_CA_FILE"
API_TIMEOUT_VARIABLE: Final = "POCKETMQ_API_TIMEOUT_MS"

DEFAULT_INSTANCE_NAME: Final = "DEFAULT"

ENCODINGS: Final[Mapping[str, Encoding]] = {
    "msgpack": Encoding.MSGPACK,
    "json": Encoding.JSON,
    "rocketmq": Encoding.ROCKETMQ,
}

_SYSTEM_CLOCK: Final = SystemClock()
_TCP: Final = TcpNetwork()
_PROFILE: Final = profile_named(DEFAULT_PROFILE)
_counter = itertools.count(1)

S = TypeVar("S")


class ClientOptions(TypedDict, total=False):
    """Keyword arguments that every client takes; see `ClientConfig` for each one's meaning."""

    nameservers: str | Sequence[str] | None
    clock: Clock | None
    network: Network | None
    profile: Profile | str | None
    encoding: str
    credentials: Credentials | tuple[str, str] | None
    tls: bool | ssl.SSLContext | None
    tls_ca_file: Path | str | None
    tls_server_name: str | None
    member_secret_file: Path | str | None
    client_ip: str | None
    instance_name: str
    unit_name: str | None
    api_timeout_ms: int
    poll_name_server_interval_ms: int
    heartbeat_broker_interval_ms: int
    persist_consumer_offset_interval_ms: int
    rebalance_interval_ms: int
    max_body_bytes: int
    events: SinkMaker | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The shared options with their defaults filled in."""

    nameservers: tuple[str, ...] = ()
    """`host:port` each; by default from the environment's NAMESRV_ADDR."""
    clock: Clock = _SYSTEM_CLOCK
    """Runs every protocol timer; timeouts of requests run on real time."""
    network: Network = _TCP
    profile: Profile = _PROFILE
    """How to behave where RocketMQ 4.9 and 5.x differ."""
    encoding: Encoding = Encoding.MSGPACK
    """Encoding of requests: `msgpack`, or `json` and `rocketmq` to talk to a real RocketMQ."""
    credentials: Credentials | None = None
    """Sign all requests (docs/security.md): `("access key", "secret key")`; by default the
    environment's POCKETMQ_ACCESS_KEY and POCKETMQ_SECRET_KEY."""
    tls: bool | ssl.SSLContext = False
    """Speak TLS with nameservers and brokers (docs/tls.md): True, or a context of one's own;
    by default the environment's POCKETMQ_TLS, `true` or `false`."""
    tls_ca_file: Path | str | None = None
    """PEM file that servers' certificates must come from; by default the environment's
    POCKETMQ_TLS_CA_FILE. Without one any server is taken, as by RocketMQ's clients."""
    tls_server_name: str | None = None
    """Name that servers' certificates must be for; by default names are not looked at."""
    member_secret_file: Path | str | None = None
    """Prove to nameservers and brokers to be a member of their cluster, over TLS (docs/members.md);
    by default the environment's POCKETMQ_MEMBER_SECRET_FILE."""
    client_ip: str = ""
    """First part of the client id; by default the address from which name servers are reached."""
    instance_name: str = DEFAULT_INSTANCE_NAME
    """Second part; `DEFAULT` becomes unique, except for broadcasting consumers."""
    unit_name: str | None = None
    """Third part, if any."""
    api_timeout_ms: int = 3_000
    """Real milliseconds for requests other than send and pull (`mqClientApiTimeout`); by default
    the environment's POCKETMQ_API_TIMEOUT_MS, for machines that are slower than usual."""
    poll_name_server_interval_ms: int = 30_000
    """Interval at which all routes in use are refreshed (P-3)."""
    heartbeat_broker_interval_ms: int = 30_000
    """Interval of heartbeats to all brokers (P-4)."""
    persist_consumer_offset_interval_ms: int = 5_000
    """Interval at which all offsets are committed (P-5)."""
    rebalance_interval_ms: int = 20_000
    """Interval of rebalances (C-20); `rocketmq.client.rebalance.waitInterval`."""
    max_body_bytes: int = 4 * 1024 * 1024
    """How far a compressed body may grow; see `MessageExt.body`."""
    events: SinkMaker = no_events
    """Takes the client's events (docs/events.md); by default nobody does."""

    @classmethod
    def of(cls, options: ClientOptions, env: Mapping[str, str] = os.environ) -> ClientConfig:
        """Fill in what the caller left out.

        Raises:
            ConfigError: an option has a value that cannot be used.
            TypeError: there is no such option.
        """
        given = {name: value for name, value in options.items() if value is not None}
        check_names("this client", given, ClientOptions.__annotations__.keys())
        text = options.get("nameservers")
        try:
            nameservers = tuple(
                as_written(address)
                for address in parse_addresses(env.get(NAMESRV_ADDR) if text is None else text)
            )
        except ValueError as exc:
            raise ConfigError("nameservers", str(exc)) from exc
        given["nameservers"] = nameservers
        given.setdefault("clock", clock_for(nameservers))
        profile = options.get("profile")
        if isinstance(profile, str):
            given["profile"] = profile_named(profile)
        encoding = options.get("encoding", "msgpack")
        if encoding not in ENCODINGS:
            raise ConfigError(
                "encoding", f"there is no {encoding!r}", advice=f"choose from {list(ENCODINGS)}"
            )
        given["encoding"] = ENCODINGS[encoding]
        if "api_timeout_ms" not in given and (word := env.get(API_TIMEOUT_VARIABLE, "").strip()):
            given["api_timeout_ms"] = _api_timeout_ms(word)
        given["credentials"] = credentials_of(options.get("credentials"), env)
        given["network"] = network_of(
            env,
            network=options.get("network"),
            tls=options.get("tls"),
            ca_file=options.get("tls_ca_file"),
            server_name=options.get("tls_server_name"),
            member_secret_file=options.get("member_secret_file"),
        )
        return cls(**given)  # type: ignore[arg-type]  # the names were checked just above

    @property
    def client_id(self) -> str:
        """`ip@instance[@unit]` (P-1); complete after `with_identity`."""
        unit = f"@{self.unit_name}" if self.unit_name else ""
        return f"{self.client_ip}@{self.instance_name}{unit}"

    async def with_identity(self, *, unique: bool) -> ClientConfig:
        """The same, with an address, and with a name that no other client has (P-1).

        Args:
            unique: Replace the instance name `DEFAULT`; broadcasting consumers keep it, so that
                their client id and with it the place of their offset file is stable.
        """
        name = self.instance_name
        if unique and name == DEFAULT_INSTANCE_NAME:
            # RocketMQ writes nanoseconds; a counter keeps ids apart while a manual clock stands.
            nanos = self.clock.time_ms() * 1_000_000 + next(_counter)
            name = f"{os.getpid()}#{nanos}"
        return replace(self, instance_name=name, client_ip=self.client_ip or await local_ip(self))


def _api_timeout_ms(word: str) -> int:
    try:
        number = int(word)
    except ValueError:
        number = 0
    if number <= 0:
        raise ConfigError(
            "api_timeout_ms",
            f"{word!r} is not a number above 0",
            origin=f"environment {API_TIMEOUT_VARIABLE}",
        )
    return number


def network_of(
    env: Mapping[str, str],
    *,
    network: Network | None = None,
    tls: bool | ssl.SSLContext | None = None,
    ca_file: Path | str | None = None,
    server_name: str | None = None,
    member_secret_file: Path | str | None = None,
) -> Network:
    """The network that a client uses: its own, or sockets, with TLS as it or the environment says.

    Where it or the environment names a cluster's secret, the client proves that it is a member:
    with `members_must_prove` nameservers and controllers answer nobody else.
    Clients that say the same share one: by it and the client id they share their connections.

    Raises:
        ConfigError: a file or a word cannot be used, or options contradict each other.
    """
    if network is not None:
        if tls or ca_file or server_name or member_secret_file:
            option = "tls" if tls or ca_file or server_name else "member_secret_file"
            raise ConfigError(
                option,
                "network= already decides how the client connects; leave out network=, or "
                "leave out all options for TLS and for the member secret",
            )
        return network
    sockets = _sockets(env, tls=tls, ca_file=ca_file, server_name=server_name)
    path = member_secret_path(member_secret_file, env)
    if path is None:
        return sockets
    origin = "" if member_secret_file else f"environment {MEMBER_VARIABLE}"
    return _proving(sockets, _FileNow.of(path, "member_secret_file", origin))


def member_secret_path(given: Path | str | None, env: Mapping[str, str]) -> Path | None:
    """The file with a cluster's secret: what the caller says, else what the environment says."""
    name = given or env.get(MEMBER_VARIABLE, "").strip()
    return Path(name).expanduser() if name else None


def _sockets(
    env: Mapping[str, str],
    *,
    tls: bool | ssl.SSLContext | None,
    ca_file: Path | str | None,
    server_name: str | None,
) -> TcpNetwork:
    if tls is not None and not isinstance(tls, bool):
        if ca_file:
            raise ConfigError(
                "tls_ca_file",
                "the SSL context in tls= already decides which certificates to trust; leave out "
                "tls_ca_file",
            )
    else:
        tls, ca_file = trusting(env, tls, ca_file, server_name)
    if tls is False:
        return _TCP
    ca = None if ca_file is None else _FileNow.of(Path(ca_file).expanduser(), "tls_ca_file")
    return _secured(tls, ca, server_name)


def trusting(
    env: Mapping[str, str],
    tls: bool | None,
    ca_file: Path | str | None,
    server_name: str | None,
) -> tuple[bool, Path | str | None]:
    """Whether connections are TLS, and the CA file: what is said, else what the environment says.

    The CA file of the environment counts whenever TLS is used and no other one is named.

    Raises:
        ConfigError: a word of the environment is none, or options contradict each other.
    """
    if tls is None and not (ca_file or server_name):
        word = env.get(TLS_VARIABLE, "").strip()
        try:
            tls = bool(word) and bool(as_type(word, bool))
        except ValueError as exc:
            raise ConfigError(
                "tls", f"{word!r} is not {exc}", origin=f"environment {TLS_VARIABLE}"
            ) from exc
    elif tls is False and (ca_file or server_name):
        raise ConfigError(
            "tls",
            "tls is False, but a CA file or a server name needs TLS; set tls=True, or leave out "
            "tls_ca_file and tls_server_name",
        )
    if tls is False:
        return False, None
    return True, ca_file or env.get(CA_FILE_VARIABLE) or None  # who names a CA wants its servers


class _FileNow(NamedTuple):
    """A file as it is: another key for the caches below once it has changed."""

    path: Path
    inode: int
    changed_ns: int
    mode: int

    @classmethod
    def of(cls, path: Path, option: str, origin: str = "") -> _FileNow:
        """Look at the file that an option names.

        Raises:
            ConfigError: it cannot be looked at.
        """
        try:
            found = path.stat()
        except OSError as exc:
            why = f"{path} cannot be read: {exc.strerror or exc}"
            raise ConfigError(option, why, origin=origin) from exc
        return cls(path, found.st_ino, found.st_mtime_ns, found.st_mode)


@functools.lru_cache(maxsize=64)
def _secured(
    tls: bool | ssl.SSLContext, ca: _FileNow | None, server_name: str | None
) -> TcpNetwork:
    ca_file = None if ca is None else ca.path
    return TcpNetwork(client_tls=client_tls(tls, ca_file=ca_file, server_name=server_name))


@functools.lru_cache(maxsize=64)
def _proving(sockets: TcpNetwork, secret: _FileNow) -> MemberNetwork:
    return MemberNetwork(sockets, Members(SecretFile(secret.path)))


def credentials_of(
    given: Credentials | tuple[str, str] | None, env: Mapping[str, str]
) -> Credentials | None:
    """What the caller gave, else what the environment has.

    Raises:
        ConfigError: one of the two keys is missing.
    """
    if isinstance(given, Credentials):
        return given
    keys = given or (env.get(ACCESS_KEY_VARIABLE, ""), env.get(SECRET_KEY_VARIABLE, ""))
    if not any(keys):
        return None
    try:
        return Credentials(*keys)
    except (TypeError, ValueError):
        raise ConfigError(
            "credentials",
            "either the access key or the secret key is missing",
            advice=(
                f"give both keys, or set the variables {ACCESS_KEY_VARIABLE} and "
                f"{SECRET_KEY_VARIABLE}"
            ),
        ) from None


def settings_of(kind: type[S], options: Mapping[str, object]) -> tuple[S, ClientOptions]:
    """Split a client's keyword arguments into its own settings and those of every client.

    Args:
        kind: A dataclass; its fields name the client's own.
        options: As a TypedDict of the same names has typed them.

    Raises:
        TypeError: there is no such option.
    """
    own = {each.name for each in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    check_names(kind.__name__, options, own | ClientOptions.__annotations__.keys())
    mine = {name: value for name, value in options.items() if name in own}
    rest = {name: value for name, value in options.items() if name not in own}
    return kind(**mine), rest  # type: ignore[return-value]  # the caller's TypedDict typed them


async def local_ip(config: ClientConfig) -> str:
    """This machine's address as the name servers see it; opens and closes one connection."""
    for address in config.nameservers:
        try:
            channel = await config.network.connect(address, Dispatcher())
        except ConnectError:
            continue
        ip, _ = split_address(channel.local_address)
        channel.close()
        return ip
    return "127.0.0.1"
