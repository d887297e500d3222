"""Requests about the accounts of ACL 1.0 (Y-25): 50 to 53, which RocketMQ has up to 5.3.2.

Answers are RocketMQ's, its codes and words, and come when the change is in the file. Where ACL 1.0
is off, RocketMQ refuses without a word, and does not answer 52 at all; here the answer says why.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from pocketmq.broker.access.plain.accounts import PlainAclError
from pocketmq.broker.access.plain.changes import (
    Contents,
    FileVersion,
    NothingChangedError,
    change_account,
    change_white_addresses,
    delete_account,
)
from pocketmq.broker.access.plain.files import Change, PlainAclFiles
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles
from pocketmq.protocol.headers.plain_access import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from pocketmq.protocol.java import java_split
from pocketmq.runtime.errors import PocketMQError

UPDATE_FAILED: Final = 209
"""UPDATE_AND_CREATE_ACL_CONFIG_FAILED, a number that means something else in 5.x."""
DELETE_FAILED: Final = 210
WHITE_FAILED: Final = 211

_IS_OFF: Final = "ACL 1.0 is off at this broker: aclEnable=true switches it on"


class PlainAccessProcessor:
    """Answers them.

    Args:
        files: The accounts' files; None where ACL 1.0 is off.
        core: Name and address of this broker, and how many accounts there may be.
    """

    def __init__(self, files: PlainAclFiles | None, core: BrokerCore) -> None:
        self._files = files
        self._core = core

    @handles(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG)
    def update_account(self, peer: Peer, request: Command) -> Reply:
        """Make or change an account."""
        header = request.header(CreateAccessConfigRequestHeader)
        told: dict[str, Any] = {"accessKey": header.access_key, "secretKey": header.secret_key}
        if header.white_remote_address is not None:
            told["whiteRemoteAddress"] = header.white_remote_address
        told["admin"] = header.admin
        if header.default_topic_perm:
            told["defaultTopicPerm"] = header.default_topic_perm
        if header.default_group_perm:
            told["defaultGroupPerm"] = header.default_group_perm
        for name, text in (("topicPerms", header.topic_perms), ("groupPerms", header.group_perms)):
            if text is not None:
                told[name] = java_split(text, ",")
        self._check_size(told)

        def change(files: Contents) -> Path:
            path = change_account(files, self._required(UPDATE_FAILED).path, told)
            count = sum(len(each.get("accounts") or ()) for each in files.values())
            budget = self._core.budget()
            budget.check("users", count, "accounts", advice="delete some, or raise it")
            return path

        failed = (
            f"The accesskey[{header.access_key}] corresponding to accessConfig has been updated "
            "failed."
        )
        return self._changed(peer, request, change, UPDATE_FAILED, failed)

    @handles(RequestCode.DELETE_ACL_CONFIG)
    def delete_account(self, peer: Peer, request: Command) -> Reply:
        """Delete an account."""
        key = request.header(DeleteAccessConfigRequestHeader).access_key
        return self._changed(
            peer,
            request,
            lambda files: delete_account(files, key),
            DELETE_FAILED,
            f"The accesskey[{key}] corresponding to accessConfig has been deleted failed.",
        )

    @handles(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG)
    def update_white_addresses(self, peer: Peer, request: Command) -> Reply:
        """Replace the addresses that need no account."""
        header = request.header(UpdateGlobalWhiteAddrsConfigRequestHeader)
        told, named = header.global_white_addrs, header.acl_file_full_path
        addresses = None if told is None else java_split(told, ",")
        shown = "null" if told is None else told
        default = self._required(WHITE_FAILED).path
        path = Path(os.path.normpath(named)) if named else default
        return self._changed(
            peer,
            request,
            lambda files: change_white_addresses(files, path, addresses),
            WHITE_FAILED,
            f"The globalWhiteAddresses[{shown}] has been updated failed.",
        )

    @handles(RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
    def versions(self, _peer: Peer, request: Command) -> Reply:
        """How often each file was changed, and when last."""
        files = self._required(ResponseCode.SYSTEM_ERROR)
        default = files.versions.get(files.path, FileVersion())
        by_path = {str(path): each for path, each in files.versions.items()}
        return request.reply(
            GetBrokerAclConfigResponseHeader(
                version=msgspec.json.encode(default).decode(),
                all_acl_file_version=msgspec.json.encode(by_path).decode(),
                broker_name=self._core.config.name,
                broker_addr=str(self._core.address),
                cluster_name=self._core.config.cluster_name,
            )
        )

    def _required(self, code: int) -> PlainAclFiles:
        if self._files is None:
            raise RequestRefusedError(code, _IS_OFF)
        return self._files

    def _check_size(self, told: dict[str, Any]) -> None:
        budget = self._core.budget()
        for name in ("topicPerms", "groupPerms"):
            found = told.get(name, ())
            budget.check("rules_per_user", len(found), f"{name} of an account")
        for each in told.values():
            if isinstance(each, str):
                budget.check("name_chars", len(each), "characters of an account's part")

    def _changed(
        self, peer: Peer, request: Command, change: Change, code: int, failed: str
    ) -> Reply:
        def done(failure: Exception | None) -> None:
            if failure is None:
                peer.reply(request, request.reply())
                return
            refusal = failure
            if isinstance(failure, NothingChangedError):
                refusal = RequestRefusedError(code, failed)
            elif isinstance(failure, PlainAclError) or (
                isinstance(failure, PocketMQError) and not getattr(failure, "code", 0)
            ):
                refusal = RequestRefusedError(code, str(failure))
            peer.reply(request, error_reply(peer, request, refusal))

        self._required(code).change(change, done)
        return None
