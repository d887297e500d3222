"""Subscription groups for admin tools (B-40, E-29).

UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200), GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201),
DELETE_SUBSCRIPTIONGROUP (207), GET_SUBSCRIPTIONGROUP_CONFIG (352).
"""

from __future__ import annotations

import msgspec

from pocketmq.broker.attributes import AttributeRules
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from pocketmq.protocol.body import decode_request_body, encode_body
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.headers.groups import (
    DeleteSubscriptionGroupRequestHeader,
    GetSubscriptionGroupRequestHeader,
)
from pocketmq.protocol.messages.validation import is_folder_name
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.signals import Signal


class GroupProcessor:
    """Creates, changes, deletes and lists subscription groups.

    Args:
        groups: the table.
        groups_file: answers wait until a change is on the disk.
        deleted: signals that a group was deleted, and whether its offsets are deleted too.
        clock: stamps changes.
        attributes: which attributes a group may have.
        budget: how many groups one request may change.
        invalid_parameter_code: answer to illegal names, by profile.
        are_names_checked: whether names are looked at; else any goes that a folder may have.
        fields_of_5x: whether the table is answered with them, by profile.
    """

    def __init__(
        self,
        groups: SubscriptionGroupManager,
        groups_file: SavedTable,
        deleted: Signal[[str, bool]],
        clock: Clock,
        attributes: AttributeRules,
        *,
        budget: BudgetSource = default_budget,
        invalid_parameter_code: int,
        are_names_checked: bool,
        fields_of_5x: bool,
    ) -> None:
        self._groups = groups
        self._budget = budget
        self._groups_file = groups_file
        self._deleted = deleted
        self._clock = clock
        self._attributes = attributes
        self._invalid_code = invalid_parameter_code
        self._are_names_checked = are_names_checked
        self._fields_of_5x = fields_of_5x

    @handles(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
    def update_and_create(self, peer: Peer, request: Command) -> Reply:
        """Create or change a group."""
        config = decode_request_body(request, SubscriptionGroupConfig)
        self._groups.put(self._checked(config), self._clock.time_ms())
        return self._answer_when_saved(peer, request)

    @handles(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
    def update_and_create_all(self, peer: Peer, request: Command) -> Reply:
        """Create or change several groups: all of them, or none when one is not as it must be."""
        body = decode_request_body(request, SubscriptionGroupList)
        self._budget().check(
            "records_per_request",
            len(body.group_config_list),
            "groups of one request",
            code=self._invalid_code,
        )
        # Check all before changing the first: a wrong one must not leave half of them changed.
        for config in [self._checked(config) for config in body.group_config_list]:
            self._groups.put(config, self._clock.time_ms())
        return self._answer_when_saved(peer, request)

    def _checked(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """The group with its attributes changed."""
        try:
            if self._are_names_checked:
                self._groups.check_name(config.group_name)
            # 4.9 accepts any name that a folder may have: the group's retry topic becomes one
            # (B-40).
            elif not is_folder_name(config.group_name):
                raise IllegalNameError("group", config.group_name, "cannot be a folder's name")
        except IllegalNameError as exc:
            raise RequestRefusedError(self._invalid_code, str(exc)) from exc
        old = self._groups.get(config.group_name)
        attributes = self._attributes.changed(
            None if old is None else old.attributes,
            (f"{key}={value}" for key, value in config.attributes.items()),
        )
        return msgspec.structs.replace(config, attributes=attributes)

    @handles(RequestCode.DELETE_SUBSCRIPTIONGROUP)
    def delete(self, peer: Peer, request: Command) -> Reply:
        """Delete a group, and its offsets if the request says so."""
        header = request.header(DeleteSubscriptionGroupRequestHeader)
        self._groups.delete(header.group_name, self._clock.time_ms())
        # The releases name this field differently; either one asks to remove the offsets.
        with_offsets = header.clean_offset or header.remove_offset is True
        self._deleted.emit(header.group_name, with_offsets)
        return self._answer_when_saved(peer, request)

    @handles(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    def all_groups(self, _peer: Peer, request: Command) -> Reply:
        """The whole table with its version."""
        table = self._groups.wrapper()
        return request.reply(body=encode_body(table, request.encoding, has_5x=self._fields_of_5x))

    @handles(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
    def group(self, _peer: Peer, request: Command) -> Reply:
        """One group's configuration; who asks for a group makes it, where a pull would (B-40)."""
        name = request.header(GetSubscriptionGroupRequestHeader).group
        config = self._groups.find_or_create(name, self._clock.time_ms())
        if config is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"group {name} does not exist on this broker",
            )
        return request.reply(body=encode_body(config, request.encoding))

    def _answer_when_saved(self, peer: Peer, request: Command) -> Reply:
        if self._groups_file.is_saved:
            return request.reply()
        self._groups_file.when_saved(lambda: peer.reply(request, request.reply()))
        return None
