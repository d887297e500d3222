"""Half messages are refused rather than stored as something else."""

from __future__ import annotations

from pocketmq.broker.delays.delay import level_of
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.protocol import properties as names
from pocketmq.protocol.codes import ResponseCode


def refuse_half_messages(message: StoredMessage, properties: dict[str, str], _now_ms: int) -> bool:
    """Stands where the rewrite of transactions would stand.

    A delayed retry that still has the mark of its half message is none.

    Raises:
        RequestRefusedError: NO_PERMISSION (16).
    """
    is_delayed_retry = message.reconsume_times > 0 and level_of(properties.get(names.DELAY)) > 0
    if properties.get(names.TRANSACTION_PREPARED) == "true" and not is_delayed_retry:
        raise RequestRefusedError(
            ResponseCode.NO_PERMISSION,
            "this broker does not take half messages; send without a transaction",
        )
    return False
