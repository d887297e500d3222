"""RocketMQ's own `mqadmin` asks our broker about groups, and makes several topics and groups."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pocketmq.client import Admin, ConsumeFromWhere, Message, Producer, PushConsumer
from support.cluster import running
from support.eventually import PATIENCE_MS, eventually
from support.java import run_java

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"


async def mqadmin(*args: str) -> str:
    """What a command prints."""
    run = await asyncio.to_thread(run_java, MQADMIN, *args, server=True)
    return run.stdout


async def test_mqadmin_reads_progress_and_entries_and_makes_lists(tmp_path: Path) -> None:
    topics, groups = tmp_path / "topics.json", tmp_path / "groups.json"
    topics.write_text(
        json.dumps([{"topicName": f"Many{n}", "readQueueNums": 2, "writeQueueNums": 2,
                     "perm": 6} for n in range(3)])
    )  # fmt: skip
    groups.write_text(json.dumps([{"groupName": f"many{n}"} for n in range(3)]))
    async with running(tmp_path) as cluster:
        broker, names = cluster.broker("a").address, cluster.nameservers
        async with Admin(nameservers=names, api_timeout_ms=PATIENCE_MS) as admin:
            await admin.create_topic("Viewed", queues=1)
            async with Producer("p", nameservers=names, send_timeout_ms=PATIENCE_MS) as producer:
                for number in range(5):
                    sent = await producer.send(Message("Viewed", b"%d" % number))
            seen: list[bytes] = []
            consumer = PushConsumer(
                "viewers", nameservers=names, consume_from_where=ConsumeFromWhere.FIRST_OFFSET
            )
            consumer.subscribe("Viewed")
            consumer.listen(lambda message: seen.append(message.body))
            async with consumer:
                await eventually(lambda: len(seen) == 5, "all are consumed")
                # RocketMQ's dashboard resends by the same request (309).
                shown = await mqadmin(
                    *("queryMsgById", "-n", names, "-t", "Viewed", "-i", sent.offset_msg_id),
                    *("-g", "viewers", "-d", consumer.client_id),
                )
                assert "order=false, autoCommit=true, consumeResult=CR_SUCCESS" in shown
                assert seen[5:] == [b"4"]
            shown = await mqadmin("brokerConsumeStats", "-n", names, "-b", broker)
            [line] = [line for line in shown.splitlines() if line.startswith("Viewed")]
            assert line.split()[1] == "viewers"
            assert line.split()[4:7] == ["5", "5", "0"]
            shown = await mqadmin(
                "queryCq",
                "-n",
                names,
                "-t",
                "Viewed",
                "-q",
                "0",
                "-i",
                "1",
                "-c",
                "3",
                "-b",
                broker,
            )
            assert shown.count("tagsCode=0") == 3
            for command, file in (("exportConfigs", "configs"), ("exportMetrics", "metrics")):
                where = ("-n", names, "-c", "DefaultCluster", "-f", str(tmp_path))
                assert "success" in await mqadmin(command, *where)
                exported = json.loads((tmp_path / f"{file}.json").read_text())
                if file == "configs":
                    told = exported["brokerConfigs"]["broker-a"]
                    assert (told["traceOn"], told["useTLS"]) == ("true", "false")
                    assert told["msgTraceTopicName"] == "RMQ_SYS_TRACE_TOPIC"
                else:
                    [told] = exported["evaluateReport"].values()
                    assert int(told["runtimeEnv"]["cpuNum"]) >= 1
            await mqadmin("updateTopicList", "-n", names, "-b", broker, "-f", str(topics))
            await mqadmin("updateSubGroupList", "-n", names, "-b", broker, "-f", str(groups))
            known = await admin.topic_configs("broker-a")
            assert [known[f"Many{n}"].read_queue_nums for n in range(3)] == [2, 2, 2]
            made = await admin.groups("broker-a")
            assert {f"many{n}" for n in range(3)} <= set(made)
