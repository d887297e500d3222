"""Patterns of client addresses in `plain_acl.yml` (Y-21): who matches needs no signature.

    *                     all
    10.0.0.{1,2}          a set; IPv6 likewise
    10.0.0.1,10.0.0.2     a list
    10.0.0.*  10.0.1-9.*  a range in one part
    10.0.0.1              one address

Where RocketMQ accepts a pattern that then fails at each look (a range of 0 to 0, a range in the
first part), it is refused here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

Matches = Callable[[str], bool]

_ALL = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")


def address_pattern(text: str | None) -> Matches:
    """Whether an address, without port and brackets, fits a pattern; a blank one fits none.

    Raises:
        ValueError: It is no pattern.
    """
    if text is None or not text.strip():
        return lambda _address: False
    if text in _ALL:
        return lambda _address: True
    if text.endswith("}"):
        return _one_of(_listed(text))
    if "," in text:
        return _one_of([each for each in text.split(",") if each])
    if "*" in text or "-" in text:
        return _range_6(text) if ":" in text else _range_4(text)
    return _one_of([text])


def _listed(text: str) -> list[str]:
    before, brace, inside = text.partition("{")
    separator = ":" if ":" in text else "."
    parts = [each for each in text.split(separator) if each]
    if not brace or not parts[-1].startswith("{") or (separator == "." and len(parts) < 4):
        raise ValueError(f"{text!r} is no set of addresses")
    return [before + each for each in inside[:-1].split(",") if each]


def _one_of(addresses: list[str]) -> Matches:
    known = {_plain(each) for each in addresses}

    def matches(address: str) -> bool:
        try:
            return _plain(address) in known
        except ValueError:
            return False

    return matches


def _plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if "%" in address:
        raise ValueError(f"{address!r} has a zone")
    return ipaddress.ip_address(address)


def _range_4(text: str) -> Matches:
    parts = [each.strip() for each in text.split(".") if each]
    if len(parts) != 4:
        raise ValueError(f"{text!r} has not four parts")
    for at in (1, 2, 3):
        if parts[at] == "*" or "-" in parts[at]:
            break
    else:
        raise ValueError(
            f"the address {text!r} must have its range in the second, third or fourth part, as * "
            "or low-high"
        )
    low, high = (0, 255) if parts[at] == "*" else _bounds(text, parts[at], 10, 255)
    head = [_number(text, each) for each in parts[:at]]

    def matches(address: str) -> bool:
        try:
            found = ipaddress.IPv4Address(address).packed
        except ValueError:
            return False
        return list(found[:at]) == head and low <= found[at] <= high

    return matches


def _range_6(text: str) -> Matches:
    star, minus = text.find("*"), text.find("-")
    last = text.rfind(":")
    before_last = text.rfind(":", 0, last)
    wrong = (star > -1 and star != len(text) - 1) or (
        minus > -1 and minus <= (last if star == -1 else before_last)
    )
    if wrong:
        raise ValueError(f"the address {text!r} may have a range only at its end")
    both = star > -1 and minus > -1
    head = _expanded(text[: before_last if both else last], 6 if both else 7)
    at = len(head)
    if minus > -1:
        ranged = text[(before_last if both else last) + 1 : last if both else len(text)]
        low, high = _bounds(text, ranged, 16, 0xFFFF)
    else:
        low, high = 0, 0xFFFF

    def matches(address: str) -> bool:
        try:
            parts = [int(each, 16) for each in ipaddress.IPv6Address(address).exploded.split(":")]
        except ValueError:
            return False
        return at < len(parts) and parts[:at] == head and low <= parts[at] <= high

    return matches


def _expanded(text: str, count: int) -> list[int]:
    """The parts before a range. As in RocketMQ, `fe80::*` is a range of the third part: what is
    left of the two colons stands for one part of zeros."""
    missing = count - text.count(":")
    if missing > 0:
        text = text.replace("::", ":" * (missing + 1))
    parts = [int(each or "0", 16) for each in text.split(":")]
    if any(not 0 <= each <= 0xFFFF for each in parts):
        raise ValueError(f"{text!r} is no address")
    return parts


def _bounds(text: str, part: str, base: int, most: int) -> tuple[int, int]:
    words = [each for each in part.split("-") if each]
    if part.startswith("-") or len(words) < 2:
        raise ValueError(f"{text!r} has half a range")
    low, high = int(words[0], base), int(words[1], base)
    if not 0 <= low <= high <= most or high == 0:
        raise ValueError(f"{text!r} has an empty range")
    return low, high


def _number(text: str, part: str) -> int:
    number = int(part)
    if not 0 <= number <= 255:
        raise ValueError(f"{text!r} is no address")
    return number
