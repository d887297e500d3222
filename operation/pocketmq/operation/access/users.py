"""A user: name, password, and whether it may do all or nothing (Y-41)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class UserType(Enum):
    """A super user may do all."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(Enum):
    """A disabled user may do nothing."""

    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True, slots=True)
class User:
    """One user; the password is also the secret key, and part of no log."""

    username: str
    password: str = field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    @property
    def subject(self) -> str:
        """Its name in rules."""
        return f"User:{self.username}"
