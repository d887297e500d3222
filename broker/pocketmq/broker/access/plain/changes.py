"""What requests change in the files of ACL 1.0, as RocketMQ 4.9.8 does it (Y-25). Pure.

The functions change contents that were just read, each file's under its path, and return which
file is to be written. A key that a file has stays in that file; a new one goes into the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from pocketmq.broker.access.plain.accounts import (
    MIN_KEY_CHARS,
    PlainAclError,
    account_of,
    is_perm,
)

Contents: TypeAlias = dict[Path, dict[str, Any]]
"""What each file holds; an empty one holds nothing."""

_ACCOUNTS: Final = "accounts"
_WHITE: Final = "globalWhiteRemoteAddresses"
_VERSION: Final = "dataVersion"


class NothingChangedError(Exception):
    """RocketMQ's `false`: there is nothing of that name."""


class FileVersion(msgspec.Struct, frozen=True):
    """RocketMQ's DataVersion of one file, in the order in which fastjson writes it."""

    counter: int = 0
    timestamp: int = 0

    @classmethod
    def of(cls, content: Mapping[str, Any], read_ms: int) -> FileVersion:
        """The version in a file; of one without, that it was read at `read_ms`."""
        found = content.get(_VERSION)
        first = found[0] if isinstance(found, list) and found else None
        if not isinstance(first, dict):
            return cls(0, read_ms)
        counter, timestamp = first.get("counter"), first.get("timestamp")
        return cls(
            counter if isinstance(counter, int) else 0,
            timestamp if isinstance(timestamp, int) else read_ms,
        )


def change_account(files: Contents, default: Path, told: Mapping[str, Any]) -> Path:
    """Make or change the account of `told["accessKey"]`; what is not told stays as it was.

    Raises:
        PlainAclError: It would make no sense, with RocketMQ's words.
    """
    key, secret = told.get("accessKey"), told.get("secretKey")
    if not key or not secret or min(len(key), len(secret)) < MIN_KEY_CHARS:
        # RocketMQ's text also contains the secret. It is left out here because refusals may be
        # logged.
        raise PlainAclError(
            f"The accessKey={key} and its secretKey cannot be null and length should longer "
            f"than {MIN_KEY_CHARS - 1}"
        )
    for each in (*(told.get("topicPerms") or ()), *(told.get("groupPerms") or ())):
        _check_perm(each)
    owner = owner_of(files, key)
    accounts = _accounts(files[owner or default])
    at = -1 if owner is None else _place_of(accounts, key)
    account = {**(accounts.pop(at) if at >= 0 else {}), **told}
    account_of(account)  # raises what a file with it would
    accounts.append(account)
    return owner or default


def delete_account(files: Contents, key: str) -> Path:
    """Take an account out of its file.

    Raises:
        NothingChangedError: There is none.
    """
    owner = owner_of(files, key)
    if owner is None:
        raise NothingChangedError
    accounts = _accounts(files[owner])
    del accounts[_place_of(accounts, key)]
    return owner


def change_white_addresses(files: Contents, path: Path, addresses: list[str] | None) -> Path:
    """Replace the addresses that need no account in one file.

    RocketMQ writes into any file below its home; here it must be one with accounts.

    Raises:
        NothingChangedError: There is no such file, or no list.
    """
    if addresses is None or path not in files:
        raise NothingChangedError
    files[path][_WHITE] = list(addresses)
    return path


def next_version(content: dict[str, Any], now_ms: int) -> None:
    """Note in a file's content that it was changed once more."""
    counter = FileVersion.of(content, now_ms).counter + 1
    content[_VERSION] = [{"counter": counter, "timestamp": now_ms}]


def owner_of(files: Contents, key: str) -> Path | None:
    """The first file that has an access key."""
    found = (path for path, each in files.items() if _place_of(_listed(each), key) >= 0)
    return next(found, None)


def _check_perm(text: str) -> None:
    """RocketMQ's `Permission.checkResourcePerms`."""
    parts = [part for part in text.split("=") if part]
    if len(parts) != 2:
        raise PlainAclError(
            f"Parse Resource format error for {text}.\n"
            "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
        )
    if not is_perm(parts[1]):
        raise PlainAclError(
            f"Parse resource permission error for {text}.\n"
            "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
        )


def _place_of(accounts: list[Any], key: str) -> int:
    for at, each in enumerate(accounts):
        if isinstance(each, dict) and str(each.get("accessKey")) == key:
            return at
    return -1


def _listed(content: Mapping[str, Any]) -> list[Any]:
    found = content.get(_ACCOUNTS)
    return found if isinstance(found, list) else []


def _accounts(content: dict[str, Any]) -> list[Any]:
    """The list of a content, made where there is none."""
    found = _listed(content)
    content[_ACCOUNTS] = found
    return found
