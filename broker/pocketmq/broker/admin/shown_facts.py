"""What GET_BROKER_CONFIG shows beside the options: what the start decided, and facts."""

from __future__ import annotations

import os

from pocketmq.broker.core import BrokerCore
from pocketmq.protocol.messages.validation import TRACE_TOPIC


def decided(core: BrokerCore, replication_port: int) -> dict[str, str]:
    """What stands for options that leave it to the broker (O-2)."""
    return {
        "listenPort": str(core.address.port),
        "haListenPort": str(replication_port),
        "brokerIP1": core.address.host,
    }


def facts(core: BrokerCore) -> dict[str, str]:
    """What RocketMQ's tools look for: mqadmin's exportConfigs and exportMetrics print it.

    With controllers, which give out roles, also the role and the id that they gave.
    """
    told = {
        "clientCallbackExecutorThreads": str(os.cpu_count() or 1),  # exportMetrics' `cpuNum`
        "msgTraceTopicName": TRACE_TOPIC,
        "traceOn": "true",  # as TRACE_ON of each answer to a send says
        "useTLS": "false",
    }
    if core.config.enable_controller_mode:
        told |= {"brokerId": str(core.role.broker_id), "brokerRole": core.role.role.name}
    return told
