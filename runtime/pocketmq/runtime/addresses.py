"""Host and port as one text, and back: the one place that knows how IPv6 is written.

    127.0.0.1:9876    name:9876    [::1]:9876

An address of IPv6 stands in brackets wherever a port or the end of a URL follows it, and without
them where it is alone: in options such as `--host`, in calls of the system, in ready lines.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address
from typing import Final

MAX_PORT: Final = 65_535


def address_text(host: str, port: int) -> str:
    """`host:port`, with brackets around an address of IPv6."""
    return f"{in_brackets(host)}:{port}"


def in_brackets(host: str) -> str:
    """A host as addresses, URLs and the header `Host` have it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def without_brackets(host: str) -> str:
    """A host as the system takes it: `::1` of `[::1]`; any other as it is."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def as_written(address: str) -> str:
    """An address as this module writes it, with brackets: of `::1:9876` `[::1]:9876`.

    Raises:
        ValueError: as `split_address`.
    """
    return address_text(*split_address(address))


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port` as its two parts; the host without brackets.

    The last colon ends the host. So `::1:9876`, which a broker of RocketMQ registers when
    `brokerIP1` was typed without brackets, is read as RocketMQ's clients read it.

    Raises:
        ValueError: it is neither, or the port is above 65535; it says what to write instead.
    """
    parts = _parts(address)
    if parts is None:
        raise ValueError(f"{address!r} is not an address of the form host:port{_advice(address)}")
    host, port = parts
    # The length first: `int` is slow for very many digits, and refuses thousands.
    if len(port) > 5 or int(port) > MAX_PORT:
        raise ValueError(f"the port of {address!r} is too high; the highest port is {MAX_PORT}")
    return host, int(port)


def _parts(address: str) -> tuple[str, str] | None:
    """Host and digits of an address; None of a text that is none."""
    host, _, port = address.rpartition(":")
    bare = without_brackets(host)
    # `isdigit` alone takes digits of other scripts.
    is_port = port.isascii() and port.isdigit()
    return (bare, port) if is_port and _is_host(bare) else None


def _is_host(text: str) -> bool:
    """Whether a text is a name or an address, and not half of one whose port was left out."""
    if not text or any(each in "/ \t@[]" for each in text):
        return False
    try:
        return ":" not in text or bool(IPv6Address(text))
    except AddressValueError:
        return False


def _advice(address: str) -> str:
    """What to write instead of a text that is no address, as the end of a sentence."""
    # URLs and addresses without a port are common mistakes.
    scheme, mark, rest = address.partition("://")
    text = rest.partition("/")[0] if mark else address
    host = without_brackets(text)
    parts = _parts(text)
    meant = "host:port"
    if parts is not None:
        meant = f"{in_brackets(parts[0])}:{parts[1]}"
    elif _is_host(host):
        meant = f"{in_brackets(host)}:PORT"
    if mark:
        return f"; write {meant}, without {scheme}://"
    return f": it has no port; write {meant}" if _is_host(host) else f"; write {meant}"


def has_port(text: str) -> bool:
    """Whether a port follows the host; an address of IPv6 without brackets has none."""
    return text.rpartition("]")[2].count(":") == 1


def host_of(address: str) -> str:
    """The host of `host:port`, without brackets; of a text without a port, the empty text."""
    return without_brackets(address.rpartition(":")[0])
