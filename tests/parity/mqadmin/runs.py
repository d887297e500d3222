"""What `mqadmin` is told to do on both sides, in order: every subcommand, most in several ways.

Placeholders: `{b}` the broker's address, `{a}` the controller's, `{f}` a folder of this side,
`{client}` the consumer's id, `{now}` milliseconds since 1970 when it began, `{id}` and `{unique}` a
message's ids, which earlier runs printed.
`-n` with this side's nameserver is added unless a run is `bare`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one subcommand.

    Attributes:
        line: what stands after `mqadmin`, split as a shell does.
        in_ci: also part of the sample.
        writes: it changes something, and is not asked once more where the two differ.
        most_s: seconds after which a command that has no end is ended.
        exports: files below `{f}` whose content belongs to the output.
        notes: what later runs need: a placeholder, and the expression whose group it is.
        bare: without `-n`.
    """

    line: str
    in_ci: bool = False
    writes: bool = False
    most_s: float = 60.0
    exports: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    bare: bool = False

    @property
    def command(self) -> str:
        """The subcommand's name."""
        return self.line.split()[0]


LOOPS_S = 2.5
"""For a command that prints at once and then once per interval, without end; those that are ended
have intervals of a minute."""


def _writers(*lines: str, in_ci: bool = False) -> list[Run]:
    return [Run(line, in_ci=in_ci, writes=True) for line in lines]


def _readers(*lines: str, in_ci: bool = False) -> list[Run]:
    return [Run(line, in_ci=in_ci) for line in lines]


NO_SUBCOMMAND = "noSuchCommand"

FILES = {
    "topics.json": '[{"topicName":"Listed0","readQueueNums":2,"writeQueueNums":2,"perm":6},'
    '{"topicName":"Listed1","readQueueNums":1,"writeQueueNums":1,"perm":6}]',
    "bad-topics.json": '[{"topicName":"no such!","readQueueNums":2,"writeQueueNums":2,"perm":6}]',
    "groups.json": '[{"groupName":"listed0"},{"groupName":"listed1","retryMaxTimes":3}]',
    "bad-groups.json": '[{"groupName":"no such!"}]',
    "none.json": "[]",
    "broker.conf": "brokerName=broker-b\n",
}
"""Lie in `{f}` before the first run."""

TOPICS: Sequence[Run] = [
    *_writers(
        "updateTopic -b {b} -t Orders -r 4 -w 4",
        "updateTopic -c DefaultCluster -t Bills -r 2 -w 2 -p 6",
        "updateTopic -b {b} -t Orders",
        # A consumer looks for it every 20 s, if it comes later.
        "updateTopic -b {b} -t %RETRY%clerks -r 1 -w 1",
        in_ci=True,
    ),
    *_writers(
        "updateTopic -b {b} -t Orders -r 4 -w 4",
        "updateTopic -b {b} -t Lined -r 1 -w 1 -a +message.type=FIFO",
        "updateTopic -b {b} -t Late -r 1 -w 1 -a +message.type=DELAY",
        "updateTopic -b {b} -t Lined -r 1 -w 1 -a -message.type",
        "updateTopic -b {b} -t Odd -r 1 -w 1 -a +message.type=ODD",
        "updateTopic -b {b} -t Odd -r 1 -w 1 -a +no.such=1",
        "updateTopic -c DefaultCluster -t Ordered -r 2 -w 2 -o true",
        "updateTopic -b {b} -t Ordered -r 3 -w 3 -o true",
        "updateTopic -b {b} -t Unit -r 1 -w 1 -u true -s true",
        "updateTopic -b {b} -t Narrow -r 1 -w 1 -p 4",
        "updateTopic -b {b} -t 'no such!'",
        "updateTopic -b {b} -t SELF_TEST_TOPIC",
        "updateTopic -b {b} -t Odd -p 9",
        "updateTopic -c NoCluster -t Orders",
        "updateTopic -b {b}",
        "updateTopic -b {b} -c DefaultCluster -t Orders",
        "updateTopic -b 127.0.0.1:1 -t Orders",
        "updateTopicList -b {b} -f {f}/topics.json",
        "updateTopicList -c DefaultCluster -f {f}/topics.json",
        "updateTopicList -b {b} -f {f}/bad-topics.json",
        "updateTopicList -b {b} -f {f}/none.json",
        "updateTopicPerm -b {b} -t Bills -p 4",
        "updateTopicPerm -c DefaultCluster -t Bills -p 6",
        "updateTopicPerm -b {b} -t Bills -p 6",
        "updateTopicPerm -b {b} -t NoTopic -p 6",
        "updateTopicPerm -t Bills -p 6",
        "updateOrderConf -t Ordered -m put -v broker-a:3",
        "updateOrderConf -t Ordered -m put",
        "updateOrderConf -t Ordered -m other",
    ),
    *_readers("updateOrderConf -t Ordered -m get", "updateOrderConf -t NoTopic -m get"),
    *_writers("updateOrderConf -t Ordered -m delete", "updateOrderConf -t NoTopic -m delete"),
]

GROUPS: Sequence[Run] = [
    *_writers(
        "updateSubGroup -b {b} -g clerks",
        "updateSubGroup -c DefaultCluster -g auditors -r 3 -q 2",
        in_ci=True,
    ),
    *_writers(
        "updateSubGroup -b {b} -g picky -s false -m false -d false -o true -i 0 -w 1 -a false",
        'updateSubGroup -b {b} -g patient -p \'{"type":"CUSTOMIZED","customizedRetryPolicy":'
        '{"next":[1000,5000,10000]}}\'',
        "updateSubGroup -b {b} -g tagged --attributes +priority.factor=50",
        "updateSubGroup -b {b} -g odd --attributes +no.such=1",
        "updateSubGroup -b {b} -g 'no such!'",
        "updateSubGroup -c NoCluster -g clerks",
        "updateSubGroup -g clerks",
        "updateSubGroupList -b {b} -f {f}/groups.json",
        "updateSubGroupList -c DefaultCluster -f {f}/groups.json",
        "updateSubGroupList -b {b} -f {f}/bad-groups.json",
        "updateSubGroupList -b {b} -f {f}/none.json",
        "setConsumeMode -b {b} -t Bills -g auditors -m POP -q 2",
        "setConsumeMode -c DefaultCluster -t Bills -g auditors -m PULL",
        "setConsumeMode -b {b} -t NoTopic -g nobody -m POP",
        "setConsumeMode -b {b} -t Bills -g auditors -m PUSH",
    ),
]

SENDS: Sequence[Run] = [
    Run(
        "sendMessage -t Orders -p first -k K1 -c TagA -b broker-a -i 0",
        in_ci=True,
        writes=True,
        notes=(("unique", r"\b([0-9A-F]{32,})\b"),),
    ),
    *_writers(
        "sendMessage -t Orders -p second -k K2 -c TagB -b broker-a -i 0",
        "sendMessage -t Orders -p third -k K1 -c TagA -b broker-a -i 1",
        in_ci=True,
    ),
    *_writers(
        "sendMessage -t Orders -p traced -k K3 -c TagA -b broker-a -i 2 -m true",
        "sendMessage -t Bills -p fourth -b broker-a -i 1",
        "sendMessage -t Lined -p free",
        "sendMessage -t Orders -p x -b broker-a -i 9",
        "sendMessage -t Orders -p x -b NoBroker -i 0",
        "sendMessage -t Narrow -p x",
        "sendMessage -t Orders -p x -i 0",
    ),
]
TOLD: Sequence[Run] = [
    *_readers("topicRoute -t Orders", "topicStatus -t Orders",
        "topicClusterList -t Orders", in_ci=True),
    *_readers(
        "topicRoute -t Orders -l", "topicRoute -t NoTopic", "topicRoute -t DefaultCluster",
        "topicRoute -t TBW102", "topicStatus -t NoTopic", "topicStatus -t Bills -c DefaultCluster",
        "topicStatus -t SCHEDULE_TOPIC_XXXX", "topicClusterList -t NoTopic",
        "topicList", "topicList -c", "allocateMQ -t Orders -i 10.0.0.1,10.0.0.2",
        "allocateMQ -t NoTopic -i 10.0.0.1",
    ),
    Run(
        "queryMsgByOffset -t Orders -b broker-a -i 0 -o 0", in_ci=True,
        notes=(("id", r"OffsetID:\s+([0-9A-F]{32})"),),
    ),
    *_readers("queryMsgById -t Orders -i {id}", "queryMsgByKey -t Orders -k K1", in_ci=True),
    *_readers(
        "queryMsgByOffset -t Orders -b broker-a -i 0 -o 99",
        "queryMsgByOffset -t Orders -b broker-a -i 9 -o 0",
        "queryMsgByOffset -t NoTopic -b broker-a -i 0 -o 0",
        "queryMsgByOffset -t Orders -b NoBroker -i 0 -o 0",
        "queryMsgByOffset -t Orders -b broker-a -i 0 -o 0 -f UTF-8",
        "queryMsgById -t Orders -i 7F000001000000010000000000000000",
        "queryMsgById -t Orders -i nonsense",
        "queryMsgById -t NoTopic -i {id}",
        "queryMsgByKey -t Orders -k NoKey", "queryMsgByKey -t NoTopic -k K1",
        "queryMsgByKey -t Orders -k K1 -m 1", "queryMsgByKey -t Orders -k K1 -b 0 -e 1",
        "queryMsgByKey -t Orders -k K1 -c DefaultCluster",
        "queryMsgByUniqueKey -t Orders -i {unique}", "queryMsgByUniqueKey -t Orders -i {unique} -a",
        "queryMsgByUniqueKey -t Orders -i 7F0000010000000100000000DEADBEEF",
        "queryMsgByUniqueKey -t Orders -i {unique} -g clerks -d nobody",
        "queryMsgTraceById -i {unique}", "queryMsgTraceById -i {unique} -t NoTopic",
        "printMsg -t Orders", "printMsg -t Orders -s TagB -d true -c UTF-8", "printMsg -t NoTopic",
        "printMsg -t Orders -b 0 -e 1",
        "printMsgByQueue -t Orders -a broker-a -i 0 -p true -d true",
        "printMsgByQueue -t Orders -a broker-a -i 0 -f true",
        "printMsgByQueue -t Orders -a broker-a -i 9 -p true",
        "printMsgByQueue -t Orders -a NoBroker -i 0 -p true",
        "queryCq -t Orders -q 0 -i 0 -c 3 -b {b}", "queryCq -t Orders -q 0 -i 0 -c 3",
        "queryCq -t Orders -q 0 -i 0 -c 1 -b {b} -g clerks", "queryCq -t NoTopic -q 0 -i 0 -b {b}",
        "queryCq -t Orders -q 9 -i 0 -b {b}", "queryCq -t Orders -q 0 -i 99 -b {b}",
    ),
]  # fmt: skip

CLIENTS: Sequence[Run] = [
    *_readers(
        "consumerProgress -g clerks", "consumerConnection -g clerks",
        "producerConnection -g sellers -t Orders", in_ci=True,
    ),
    *_readers(
        "consumerProgress", "consumerProgress -g clerks -t Orders",
        "consumerProgress -g clerks -s true",
        "consumerProgress -g nobody", "consumerProgress -g clerks -t NoTopic",
        "consumerProgress -g clerks -c DefaultCluster",
        "consumerConnection -g clerks -b {b}", "consumerConnection -g nobody",
        "consumerConnection -g nobody -b {b}",
        "producerConnection -g nobody -t Orders", "producerConnection -g sellers -t NoTopic",
        "producer -b {b}", "producer -b 127.0.0.1:1",
        "consumerStatus -g clerks", "consumerStatus -g clerks -i {client}",
        "consumerStatus -g clerks -i {client} -s", "consumerStatus -g nobody",
        "consumerStatus -g clerks -i nobody", "consumerStatus -g clerks -b {b}",
        "brokerConsumeStats -b {b}", "brokerConsumeStats -b {b} -o true",
        "brokerConsumeStats -b {b} -l 1", "brokerConsumeStats -b {b} -t 60000",
        "queryMsgById -t Orders -i {id} -g clerks -d {client}",
        "queryMsgById -t Orders -i {id} -g clerks -d nobody",
        "queryMsgByUniqueKey -t Orders -i {unique} -g clerks -d {client}",
        "queryMsgById -t Orders -i {id} -g clerks",
        "getConsumerConfig -g clerks", "getConsumerConfig -g picky", "getConsumerConfig -g nobody",
        "statsAll", "statsAll -a -t NoTopic", "statsAll -t Orders", "statsAll -t NoTopic",
    ),
    *_writers(
        "resetOffsetByTime -g clerks -t Orders -s {now}",
        "resetOffsetByTime -g clerks -t Orders -s 0 -b {b} -q 0",
        "resetOffsetByTime -g clerks -t Orders -s now -b {b} -q 0 -o 1",
        "resetOffsetByTime -g clerks -t Orders -s now -c DefaultCluster",
        "skipAccumulatedMessage -g clerks -t Orders -f true",
    ),
]  # fmt: skip
"""Asked while a consumer and a producer are there."""

OFFSETS: Sequence[Run] = [
    *_writers(
        "resetOffsetByTime -g auditors -t Orders -s 0",
        "resetOffsetByTime -g auditors -t Orders -s now -f false",
        "resetOffsetByTime -g auditors -t NoTopic -s now",
        "resetOffsetByTime -g auditors -t Orders -s nonsense",
        "resetOffsetByTime -g auditors -t Orders -s now -b {b} -q 9",
        "skipAccumulatedMessage -g auditors -t Orders",
        "skipAccumulatedMessage -g nobody -t NoTopic",
        "cloneGroupOffset -s auditors -d cloned -t Orders",
        "cloneGroupOffset -s nobody -d cloned -t Orders",
        "cloneGroupOffset -s auditors -d cloned -t NoTopic",
    ),
    *_readers("consumerProgress -g auditors", "consumerProgress -g cloned"),
    *_writers("consumerStatus -g clerks", "consumerConnection -g clerks"),
]
"""Asked when both are gone."""

BROKERS: Sequence[Run] = [
    *_readers("clusterList", "getNamesrvConfig", in_ci=True),
    *_readers(
        "clusterList -c DefaultCluster", "clusterList -c NoCluster", "clusterList -m",
        "brokerStatus -b {b}", "brokerStatus -c DefaultCluster", "brokerStatus -c NoCluster",
        "brokerStatus -b 127.0.0.1:1", "brokerStatus",
        "getBrokerConfig -b {b}", "getBrokerConfig -c DefaultCluster",
        "getBrokerConfig -c NoCluster",
        "haStatus -b {b}", "haStatus -c DefaultCluster", "haStatus",
        "getBrokerEpoch -b broker-a", "getBrokerEpoch -c DefaultCluster",
        "getBrokerEpoch -b NoBroker",
        "getColdDataFlowCtrInfo -b {b}", "getColdDataFlowCtrInfo -c DefaultCluster",
    ),
    Run("clusterList -i 60", most_s=LOOPS_S),
    Run("haStatus -b {b} -i 60", most_s=LOOPS_S),
    Run("clusterRT -a 3 -i 60", most_s=LOOPS_S),
    Run("clusterRT -a 3 -s 16 -c DefaultCluster -p true -m here -i 60", most_s=LOOPS_S),
    Run("clusterRT -a 3 -i 60 -c NoCluster", most_s=LOOPS_S),
    *_readers(
        "sendMsgStatus -b broker-a -c 3", "sendMsgStatus -b broker-a -c 1 -s 16",
        "checkMsgSendRT -t Orders -a 3 -s 16", "checkMsgSendRT -t NoTopic -a 2",
    ),
    *_writers(
        "updateBrokerConfig -b {b} -k flushDiskType -v ASYNC_FLUSH", in_ci=True,
    ),
    *_writers(
        "updateBrokerConfig -c DefaultCluster -k maxTransferCountOnMessageInMemory -v 31",
        "updateBrokerConfig -c DefaultCluster -a true -k maxTransferCountOnMessageInMemory -v 32",
        "updateBrokerConfig -b {b} -k brokerConfigPath -v x",
        "updateBrokerConfig -b {b} -k noSuchOption -v x",
        "updateBrokerConfig -b {b} -k fileReservedTime -v abc",
        "updateBrokerConfig -c NoCluster -k fileReservedTime -v 71",
        "updateBrokerConfig -k fileReservedTime -v 71",
        "updateColdDataFlowCtrGroupConfig -b {b} -g clerks -v 1048576",
        "updateColdDataFlowCtrGroupConfig -c DefaultCluster -g auditors -v 1048576",
        "updateColdDataFlowCtrGroupConfig -b {b} -g clerks -v abc",
        "updateColdDataFlowCtrGroupConfig -b {b} -g nobody -v 10",
    ),
    *_readers("getColdDataFlowCtrInfo -b {b}", "getColdDataFlowCtrInfo -c NoCluster"),
    *_writers(
        "removeColdDataFlowCtrGroupConfig -b {b} -g clerks",
        "removeColdDataFlowCtrGroupConfig -c DefaultCluster -g auditors",
        "removeColdDataFlowCtrGroupConfig -b {b} -g nobody",
        "setCommitLogReadAheadMode -b {b} -m 0", "setCommitLogReadAheadMode -c DefaultCluster -m 1",
        "setCommitLogReadAheadMode -b {b} -m 7", "setCommitLogReadAheadMode -b {b} -m abc",
        "setCommitLogReadAheadMode -b {b} -m 0",
        "resetMasterFlushOffset -b {b} -o 0", "resetMasterFlushOffset -b {b}",
        "cleanExpiredCQ -b {b}", "cleanExpiredCQ -c DefaultCluster", "cleanExpiredCQ -c NoCluster",
        "cleanExpiredCQ",
        "deleteExpiredCommitLog -b {b}", "deleteExpiredCommitLog -c DefaultCluster",
        "deleteExpiredCommitLog -c NoCluster",
        "addBroker -c {b} -b {f}/broker.conf", "addBroker -c 127.0.0.1:1 -b {f}/broker.conf",
        "removeBroker -c {b} -b DefaultCluster:broker-b:0", "removeBroker -c {b} -b nonsense",
        "wipeWritePerm -b broker-a",
    ),
    *_readers("topicRoute -t Orders"),
    *_writers(
        "addWritePerm -b broker-a", "addWritePerm -b NoBroker", "wipeWritePerm -b NoBroker",
        "updateKvConfig -s SPACE -k key -v value", "updateKvConfig -s SPACE -k key",
        "deleteKvConfig -s SPACE -k key", "deleteKvConfig -s NOSPACE -k key",
        "updateNamesrvConfig -k scanNotActiveBrokerInterval -v 6000",
        "updateNamesrvConfig -k kvConfigPath -v x", "updateNamesrvConfig -k noSuchOption -v x",
    ),
]  # fmt: skip

EXPORTS: Sequence[Run] = [
    Run("exportMetadata -c DefaultCluster -f {f}", exports=("metadata.json",)),
    Run("exportMetadata -c DefaultCluster -f {f} -t", exports=("topic.json",)),
    Run("exportMetadata -c DefaultCluster -f {f} -g", exports=("subscriptionGroup.json",)),
    Run("exportMetadata -b {b} -f {f} -t -s", exports=("topic.json",)),
    Run("exportMetadata -b {b} -f {f} -g", exports=("subscriptionGroup.json",)),
    *_readers("exportMetadata -b {b} -f {f}", "exportMetadata -c NoCluster -f {f}",
        "exportMetadata"),
    Run("exportConfigs -c DefaultCluster -f {f}", exports=("configs.json",)),
    Run("exportMetrics -c DefaultCluster -f {f}", exports=("metrics.json",)),
    *_readers("exportConfigs -c NoCluster -f {f}", "exportMetrics -c NoCluster -f {f}"),
    *_writers(
        "exportPopRecord -b {b} -d true", "exportPopRecord -b {b} -d false",
        "exportPopRecord -c DefaultCluster", "exportPopRecord -c NoCluster",
    ),
    *_readers(
        "exportMetadataInRocksDB -p {f}/none -t topics", "exportMetadataInRocksDB -t topics",
        "rocksDBConfigToJson -b {b} -t topics", "rocksDBConfigToJson -c DefaultCluster",
        "rocksDBConfigToJson -c DefaultCluster -t nonsense",
        "checkRocksdbCqWriteProgress -c DefaultCluster",
        "checkRocksdbCqWriteProgress -c DefaultCluster -t Orders -cf 0",
        "checkRocksdbCqWriteProgress -c NoCluster",
        "dumpCompactionLog -f {f}/none", "dumpCompactionLog",
    ),
    Run("rocksDBConfigToJson -p {f}/none -t topics", bare=True),
    Run("rocksDBConfigToJson", bare=True),
]  # fmt: skip

ACCESS: Sequence[Run] = [
    *_writers(
        "createUser -b {b} -u ann -p secret",
        "createUser -c DefaultCluster -u bob -p secret -t Super",
        "createUser -b {b} -u ann -p secret", "createUser -b {b} -u cid -p secret -t Odd",
        "createUser -b {b} -u ann", "createUser -c NoCluster -u ann -p x",
        "updateUser -b {b} -u ann -p other", "updateUser -c DefaultCluster -u ann -s disable",
        "updateUser -b {b} -u ann -t Super", "updateUser -b {b} -u nobody -p x",
        "updateUser -b {b} -u ann -s odd", "updateUser -b {b} -u ann",
    ),
    *_readers(
        "getUser -b {b} -u ann", "getUser -c DefaultCluster -u bob", "getUser -b {b} -u nobody",
        "getUser -b {b}",
        "listUser -b {b}", "listUser -c DefaultCluster", "listUser -b {b} -f an",
        "listUser -b {b} -f nobody", "listUser -c NoCluster",
    ),
    *_writers(
        "copyUser -f {b} -t {b}", "copyUser -f {b} -t {b} -u ann,nobody",
        "copyUser -f 127.0.0.1:1 -t {b}",
        "createAcl -b {b} -s User:ann -r Topic:Orders -a Pub,Sub -i 10.0.0.0/24 -d Allow",
        "createAcl -c DefaultCluster -s User:bob -r Topic:*,Group:clerks -a Sub -d Deny",
        "createAcl -b {b} -s User:nobody -r Topic:Orders -a Pub -d Allow",
        "createAcl -b {b} -s User:ann -r Nothing:Orders -a Pub -d Allow",
        "createAcl -b {b} -s User:ann -r Topic:Orders -a Odd -d Allow",
        "createAcl -b {b} -s User:ann -r Topic:Orders -a Pub -d Odd",
        "createAcl -b {b} -s User:ann -r Topic:Orders -a Pub -d Allow -i nonsense",
        "updateAcl -b {b} -s User:ann -r Topic:Bills -a Pub -d Allow",
        "updateAcl -c DefaultCluster -s User:ann -r Topic:Bills -a Sub -d Deny",
        "updateAcl -b {b} -s User:nobody -r Topic:Bills -a Pub -d Allow",
    ),
    *_readers(
        "getAcl -b {b} -s User:ann", "getAcl -c DefaultCluster -s User:bob",
        "getAcl -b {b} -s User:nobody", "getAcl -b {b}",
        "listAcl -b {b}", "listAcl -c DefaultCluster", "listAcl -b {b} -s User:an",
        "listAcl -b {b} -r Topic:Bi", "listAcl -b {b} -s User:nobody", "listAcl -c NoCluster",
    ),
    *_writers(
        "copyAcl -f {b} -t {b}", "copyAcl -f {b} -t {b} -s User:ann,User:nobody",
        "deleteAcl -b {b} -s User:ann -r Topic:Bills", "deleteAcl -c DefaultCluster -s User:ann",
        "deleteAcl -b {b} -s User:nobody", "deleteAcl -c NoCluster -s User:ann",
        "deleteUser -b {b} -u ann", "deleteUser -c DefaultCluster -u bob",
        "deleteUser -b {b} -u nobody", "deleteUser -b {b}",
    ),
    *_readers("listAcl -b {b}", "listUser -b {b}"),
]  # fmt: skip
"""Users and rules are kept, but not asked for: the tool has no account here."""

CONTROLLERS: Sequence[Run] = [
    *_readers(
        "getControllerMetaData -a {a}", "getControllerMetaData -a 127.0.0.1:1",
        "getControllerConfig -a {a}", "getSyncStateSet -a {a} -b shop-a", "getSyncStateSet -a {a}",
        "getSyncStateSet -a {a} -b NoBroker", "getSyncStateSet -a {a} -c DefaultCluster",
    ),
    Run("getSyncStateSet -a {a} -b shop-a -i 60", most_s=LOOPS_S),
    *_writers(
        "updateControllerConfig -a {a} -k scanNotActiveBrokerInterval -v 5000",
        "updateControllerConfig -a {a} -k noSuchOption -v x",
        "updateControllerConfig -a {a} -k controllerStorePath -v x",
        "electMaster -a {a} -b 2 -bn shop-a -c shop", "electMaster -a {a} -b 9 -bn shop-a -c shop",
        "electMaster -a {a} -b 1 -bn NoBroker -c shop",
        "cleanBrokerMetadata -a {a} -bn shop-a -b 9 -c shop",
        "cleanBrokerMetadata -a {a} -bn shop-a", "cleanBrokerMetadata -a {a} -bn NoBroker -l",
        "cleanBrokerMetadata -a {a} -bn shop-a -b 2 -c shop",
        "cleanBrokerMetadata -a {a} -bn shop-a -c shop -l",
    ),
    *_readers("getSyncStateSet -a {a} -b shop-a"),
]  # fmt: skip
"""A controller of its own on each side, at which two replicas of `shop-a` have registered."""

DELETIONS: Sequence[Run] = [
    *_writers(
        "deleteTopic -c DefaultCluster -t Bills", "deleteSubGroup -b {b} -g auditors -r true",
        in_ci=True,
    ),
    *_writers(
        "deleteTopic -c DefaultCluster -t NoTopic", "deleteTopic -c NoCluster -t Orders",
        "deleteTopic -t Orders", "deleteTopic -c DefaultCluster -t TBW102",
        "deleteSubGroup -c DefaultCluster -g clerks", "deleteSubGroup -b {b} -g nobody",
        "deleteSubGroup -c NoCluster -g clerks", "deleteSubGroup -g clerks",
        "cleanUnusedTopic -b {b}", "cleanUnusedTopic -c DefaultCluster",
        "cleanUnusedTopic -c NoCluster",
    ),
    *_readers("topicList", "topicRoute -t Bills", in_ci=True),
    *_readers("consumerProgress", "exportMetadata -c DefaultCluster -f {f}", NO_SUBCOMMAND),
]  # fmt: skip

LAST: Sequence[Run] = [
    # A broker of RocketMQ may read a heartbeat after it has seen the end of its connection, and
    # then tells of that client for two minutes.
    *_readers(
        "consumeMessage -t Orders -b broker-a -i 0 -o 0 -c 2",
        "consumeMessage -t Orders -b broker-a -i 0 -s 0 -e {now} -c 2",
        "consumeMessage -t Orders -i 0", "consumeMessage -t Orders -c 0",
        "consumeMessage -t NoTopic -c 1", "consumeMessage -t Orders -b NoBroker -i 0 -c 1",
        "consumeMessage -t Orders -b broker-a -i 1 -g walkers -c 1",
    ),
    *_writers(
        "updateStaticTopic -b broker-a -qn 2 -t Static",
        "updateStaticTopic -c DefaultCluster -qn 2 -t Static2",
        "remappingStaticTopic -b broker-a -t Orders",
        "remappingStaticTopic -c DefaultCluster -t NoTopic",
        "startMonitoring",
    ),
]  # fmt: skip
"""The last one's threads go on: nothing follows it."""

ALL: Sequence[Run] = [
    *TOPICS, *GROUPS, *SENDS, *TOLD, *CLIENTS, *OFFSETS, *BROKERS, *EXPORTS, *ACCESS, *CONTROLLERS,
    *DELETIONS, *LAST,
]  # fmt: skip
SUBCOMMANDS = tuple(dict.fromkeys(each.command for each in ALL if each.command != NO_SUBCOMMAND))
"""All that there are."""
