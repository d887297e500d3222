"""Where RocketMQ 4.9, 5.3 and 5.5 differ, as one value with a part for each role.

5.x is the newest, and the default.

Each field is one difference, with the rule that explains it ([docs/rules](../../../../docs/rules)).
Code asks the field and never the profile's name, so that searching for a field finds every place
where the releases differ. What belongs to one role takes that role's part: a store a
`BrokerProfile`, a listener's service a `ClientProfile`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.profile.broker import BROKER_4_9, BROKER_5_3, BROKER_5_5, BrokerProfile
from pocketmq.runtime.profile.client import CLIENT_4_9, CLIENT_5_3, CLIENT_5_5, ClientProfile
from pocketmq.runtime.profile.nameserver import (
    NAMESERVER_4_9,
    NAMESERVER_5_3,
    NAMESERVER_5_5,
    NameServerProfile,
)

ProfileName = Literal["4.9", "5.3", "5.5", "5.x"]

DEFAULT_PROFILE: ProfileName = "5.x"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One line of RocketMQ releases: as read at 4.9.8, 5.3.3 and 5.5.1."""

    name: ProfileName
    release: tuple[int, int, int]
    """The newest of the line; requests that came later are not answered."""
    client_version: int
    """Version ordinal that clients and servers stamp on commands (E-7)."""
    nameserver: NameServerProfile
    broker: BrokerProfile
    client: ClientProfile


PROFILE_4_9 = Profile(
    name="4.9",
    release=(4, 9, 8),
    client_version=409,
    nameserver=NAMESERVER_4_9,
    broker=BROKER_4_9,
    client=CLIENT_4_9,
)
"""RocketMQ 4.9.8."""

PROFILE_5_3 = Profile(
    name="5.3",
    release=(5, 3, 3),
    client_version=479,
    nameserver=NAMESERVER_5_3,
    broker=BROKER_5_3,
    client=CLIENT_5_3,
)
"""RocketMQ 5.3.3."""

PROFILE_5_5 = Profile(
    name="5.5",
    release=(5, 5, 1),
    client_version=515,
    nameserver=NAMESERVER_5_5,
    broker=BROKER_5_5,
    client=CLIENT_5_5,
)
"""RocketMQ 5.5.1, as far as facts are known: `docs/generated/profiles.md`."""

PROFILE_5_X = PROFILE_5_5
"""The newest."""

PROFILES = (PROFILE_4_9, PROFILE_5_3, PROFILE_5_5)

_BY_NAME: dict[str, Profile] = {**{each.name: each for each in PROFILES}, "5.x": PROFILE_5_X}


def profile_named(name: str) -> Profile:
    """The profile called `4.9`, `5.3` or `5.5`; `5.x` is the newest.

    Raises:
        ConfigError: There is no such profile.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        raise ConfigError(
            "profile", f"there is no {name!r}", advice=f"choose from {', '.join(_BY_NAME)}"
        ) from None
