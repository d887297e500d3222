"""Where RocketMQ 4.9 and 5.x differ, as one value with a part for each role; 5.x is the default.

Each field is one difference, with the rule that explains it ([docs/rules](../../../../docs/rules)).
Code asks the field and never the profile's name, so that searching for a field finds every place
where the releases differ. What belongs to one role takes that role's part: a store a
`BrokerProfile`, a listener's service a `ClientProfile`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.profile.broker import BROKER_4_9, BROKER_5_X, BrokerProfile
from pocketmq.runtime.profile.client import CLIENT_4_9, CLIENT_5_X, ClientProfile
from pocketmq.runtime.profile.nameserver import NAMESERVER_4_9, NAMESERVER_5_X, NameServerProfile

ProfileName = Literal["4.9", "5.x"]

DEFAULT_PROFILE: ProfileName = "5.x"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One line of RocketMQ releases: 4.9 as read at 4.9.8, 5.x as read at 5.3.4-SNAPSHOT."""

    name: ProfileName
    client_version: int
    """Version ordinal that clients and servers stamp on commands (E-7)."""
    nameserver: NameServerProfile
    broker: BrokerProfile
    client: ClientProfile


PROFILE_4_9 = Profile(
    name="4.9",
    client_version=409,
    nameserver=NAMESERVER_4_9,
    broker=BROKER_4_9,
    client=CLIENT_4_9,
)
"""RocketMQ 4.9.8."""

PROFILE_5_X = Profile(
    name="5.x",
    client_version=479,
    nameserver=NAMESERVER_5_X,
    broker=BROKER_5_X,
    client=CLIENT_5_X,
)
"""RocketMQ 5.2.0 and later."""

_PROFILES: dict[str, Profile] = {profile.name: profile for profile in (PROFILE_4_9, PROFILE_5_X)}


def profile_named(name: str) -> Profile:
    """The profile called `4.9` or `5.x`.

    Raises:
        ConfigError: There is no such profile.
    """
    try:
        return _PROFILES[name]
    except KeyError:
        raise ConfigError(
            "profile", f"there is no {name!r}", advice=f"choose from {', '.join(_PROFILES)}"
        ) from None
