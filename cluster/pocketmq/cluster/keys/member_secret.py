"""The secret of a cluster's members, and how this process connects to them."""

from __future__ import annotations

import secrets
from pathlib import Path

from pocketmq.operation.membership.members import Members
from pocketmq.operation.membership.network import MemberNetwork
from pocketmq.operation.membership.options import SecretFile
from pocketmq.protocol.member_proof import LEAST_SECRET_BYTES
from pocketmq.protocol.transport.network import Network
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.files.private_file import write_private


def as_member(network: Network, secret_file: Path | None) -> Network:
    """The same network, whose connections are a member's if the cluster has a secret.

    The first start makes the secret, in a file that only its owner can read.

    Raises:
        ConfigError: what is in the file is none, or others can read it.
        DiskError: it cannot be written.
    """
    if secret_file is None:
        return network
    # An existing secret is kept: running roles know it, and restarted ones must use the same.
    if not secret_file.exists():
        try:
            write_private(secret_file, f"{secrets.token_hex(LEAST_SECRET_BYTES)}\n".encode())
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise DiskError(secret_file, reason, advice="choose another folder") from exc
    return MemberNetwork(network, Members(SecretFile(secret_file)))
