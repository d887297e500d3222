"""The key-value configuration (N-33).

PUT_KV_CONFIG (100), GET_KV_CONFIG (101), DELETE_KV_CONFIG (102), GET_KVLIST_BY_NAMESPACE (219).
"""

from __future__ import annotations

from pocketmq.nameserver.kv_config import KvConfig
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.kv import (
    DeleteKvConfigRequestHeader,
    GetKvConfigRequestHeader,
    GetKvConfigResponseHeader,
    GetKvListRequestHeader,
    PutKvConfigRequestHeader,
)
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.files.shared_writes import SharedWrites


class KvProcessor:
    """Reads and changes the table. A change is answered once it is in the file."""

    def __init__(
        self, kv: KvConfig, writer: SharedWrites, budget: BudgetSource = default_budget
    ) -> None:
        self._budget = budget
        self._kv = kv
        self._writer = writer

    @handles(RequestCode.PUT_KV_CONFIG)
    def put(self, peer: Peer, request: Command) -> Reply:
        """Set one value, unless all would become too large."""
        header = request.header(PutKvConfigRequestHeader)
        growth = self._kv.growth(header.namespace, header.key, header.value)
        # Less is always allowed, so that a full table can be reduced.
        if growth > 0:
            self._budget().check(
                "kv_bytes",
                self._kv.size_bytes + growth,
                "bytes of the key-value configuration",
                advice="delete what nobody needs, or raise it",
            )
        self._kv.put(header.namespace, header.key, header.value)
        self._answer_when_saved(peer, request)
        return None

    @handles(RequestCode.DELETE_KV_CONFIG)
    def delete(self, peer: Peer, request: Command) -> Reply:
        """Remove one key."""
        header = request.header(DeleteKvConfigRequestHeader)
        self._kv.delete(header.namespace, header.key)
        self._answer_when_saved(peer, request)
        return None

    @handles(RequestCode.GET_KV_CONFIG)
    def get(self, _peer: Peer, request: Command) -> Reply:
        """One value, or QUERY_NOT_FOUND (22)."""
        header = request.header(GetKvConfigRequestHeader)
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            return request.reply(
                code=ResponseCode.QUERY_NOT_FOUND,
                remark=f"No config item, Namespace: {header.namespace} Key: {header.key}",
            )
        return request.reply(GetKvConfigResponseHeader(value=value))

    @handles(RequestCode.GET_KVLIST_BY_NAMESPACE)
    def namespace(self, _peer: Peer, request: Command) -> Reply:
        """All keys of a namespace, or QUERY_NOT_FOUND (22)."""
        header = request.header(GetKvListRequestHeader)
        table = self._kv.namespace(header.namespace)
        if not table:
            return request.reply(
                code=ResponseCode.QUERY_NOT_FOUND,
                remark=f"No config item, Namespace: {header.namespace}",
            )
        return request.reply(body=encode_body(KVTable(table=table), request.encoding))

    def _answer_when_saved(self, peer: Peer, request: Command) -> None:
        def saved(error: DiskError | None) -> None:
            if error is None:
                peer.reply(request, request.reply())
                return
            # The value is changed in memory but not on the disk, which the client must know (N-33).
            remark = f"changed until the next restart only: {error}"
            peer.reply(request, request.reply(code=ResponseCode.SYSTEM_ERROR, remark=remark))

        self._writer.save(saved)
