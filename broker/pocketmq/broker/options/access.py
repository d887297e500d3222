"""Options of access control: users and what they may do. They are part of `BrokerConfig`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pocketmq.operation.access.options import InitialUserOptions, inner_credentials
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.configuration.options import option
from pocketmq.runtime.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class AccessOptions(InitialUserOptions):
    """RocketMQ's ACL 2.0 and 1.0 (docs/security.md)."""

    authentication_enabled: bool = option(
        False, help="Accept only requests that a user has signed.", rule="Y-40"
    )
    authorization_enabled: bool = option(
        False, help="Accept only requests that the user's rules allow.", rule="Y-40"
    )
    authentication_whitelist: str = option(
        "", help="Codes of requests that need no signature, separated by ','.", rule="Y-40"
    )
    authorization_whitelist: str = option(
        "", help="Codes of requests that any user may send, separated by ','.", rule="Y-40"
    )
    inner_client_authentication_credentials: str = option(
        "",
        help=(
            "Key of a super user, which signs this broker's own requests: "
            '{"accessKey":"...","secretKey":"..."}.'
        ),
        rule="Y-40",
        secret=True,
    )

    acl_enable: bool = option(
        False,
        help=(
            "Only in profile 4.9: use ACL 1.0. The broker then accepts only requests that "
            "plain_acl.yml allows."
        ),
        rule="Y-20",
    )
    plain_acl_file: Path | None = option(
        None,
        help=(
            "File with the accounts of ACL 1.0. The broker also reads the files in the "
            "folder acl/ beside this file. Default: config/plain_acl.yml in the store."
        ),
        rule="Y-20",
    )
    migrate_auth_from_v1_enabled: bool = option(
        False,
        help=(
            "At each start, create users and rules from the accounts in the file of ACL "
            "1.0 (plainAclFile)."
        ),
        rule="Y-50",
    )

    @property
    def inner_credentials(self) -> Credentials | None:
        """What signs the broker's requests to others.

        Raises:
            ConfigError: the option cannot be read.
        """
        return inner_credentials(self.inner_client_authentication_credentials)

    def white_codes(self, name: str) -> frozenset[int]:
        """The request codes of a list.

        Raises:
            ConfigError: one is no number.
        """
        text: str = getattr(self, name)
        try:
            return frozenset(int(each) for each in text.split(",") if each.strip())
        except ValueError:
            raise ConfigError(name, "request codes are numbers, separated by ','") from None
