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


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port` as its two parts; the host without brackets.

    The last colon ends the host. So `::1:9876`, which a broker of RocketMQ registers when
    `brokerIP1` was typed without brackets, is read as RocketMQ's clients read it.

    Raises:
        ValueError: it is neither, or the port is above 65535.
    """
    # A URL is a common mistake: say what to write instead.
    scheme, mark, rest = address.partition("://")
    if mark:
        bare = rest.partition("/")[0] or "host:port"
        raise ValueError(
            f"{address!r} is no address of the form host:port; write {bare}, without {scheme}://"
        )
    host, _, port = address.rpartition(":")
    # `isdigit` alone takes digits of other scripts.
    is_port = port.isascii() and port.isdigit()
    bare = without_brackets(host)
    if not bare or not is_port or any(each in "/ \t@[]" for each in bare) or _half_of_ipv6(bare):
        raise ValueError(f"{address!r} is no address of the form host:port")
    # The length first: `int` is slow for very many digits, and refuses thousands.
    if len(port) > 5 or int(port) > MAX_PORT:
        raise ValueError(f"{address!r} has no port; ports end at {MAX_PORT}")
    return bare, int(port)


def _half_of_ipv6(host: str) -> bool:
    """Whether a host has colons and is no address: the port was left out behind a whole one."""
    try:
        return ":" in host and not IPv6Address(host)
    except AddressValueError:
        return True


def has_port(text: str) -> bool:
    """Whether a port follows the host; an address of IPv6 without brackets has none."""
    return text.rpartition("]")[2].count(":") == 1


def host_of(address: str) -> str:
    """The host of `host:port`, without brackets; of a text without a port, the empty text."""
    return without_brackets(address.rpartition(":")[0])
