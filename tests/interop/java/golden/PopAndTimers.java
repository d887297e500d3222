import com.alibaba.fastjson.JSON;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.broker.loadbalance.MessageRequestModeManager;
import org.apache.rocketmq.broker.offset.ConsumerOrderInfoManager;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageQueueAssignment;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.common.producer.RecallMessageHandle;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.BatchAck;
import org.apache.rocketmq.remoting.protocol.body.BatchAckMessageRequestBody;
import org.apache.rocketmq.remoting.protocol.body.QueryAssignmentRequestBody;
import org.apache.rocketmq.remoting.protocol.body.QueryAssignmentResponseBody;
import org.apache.rocketmq.remoting.protocol.body.SetMessageRequestModeRequestBody;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.store.pop.AckMsg;
import org.apache.rocketmq.store.pop.BatchAckMsg;
import org.apache.rocketmq.store.pop.PopCheckPoint;
import org.apache.rocketmq.store.timer.TimerCheckpoint;
import org.apache.rocketmq.store.timer.TimerLog;
import org.apache.rocketmq.store.timer.TimerMetrics;
import org.apache.rocketmq.store.timer.TimerWheel;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageAccessor;

/**
 * Prints what RocketMQ's classes write of pop, timers and recall: lines {@code name TAB text}.
 * Run as a single source file, because it needs the server's class path.
 */
public class PopAndTimers {
    public static void main(String[] args) throws Exception {
        bodies();
        handles();
        records();
        orders();
        timers(Path.of(args[0]));
        System.exit(0);
    }

    static void text(String name, String value) {
        System.out.println(name + "\t" + value);
    }

    static void bytes(String name, byte[] value) {
        StringBuilder hex = new StringBuilder();
        for (byte b : value) {
            hex.append(String.format("%02x", b));
        }
        System.out.println(name + "\t" + hex);
    }

    static void body(String name, RemotingSerializable body) {
        text("body." + name, new String(body.encode(), StandardCharsets.UTF_8));
    }

    static void bodies() {
        BatchAck ack = new BatchAck();
        ack.setConsumerGroup("G1");
        ack.setTopic("TP");
        ack.setRetry("0");
        ack.setStartOffset(7);
        ack.setQueueId(3);
        ack.setReviveQueueId(1);
        ack.setPopTime(1700000000123L);
        ack.setInvisibleTime(60000);
        BitSet bits = new BitSet();
        bits.set(0);
        bits.set(2);
        bits.set(31);
        ack.setBitSet(bits);
        BatchAckMessageRequestBody acks = new BatchAckMessageRequestBody();
        acks.setBrokerName("broker-a");
        acks.setAcks(new ArrayList<>(Collections.singletonList(ack)));
        body("BatchAckBody", acks);
        QueryAssignmentRequestBody query = new QueryAssignmentRequestBody();
        query.setTopic("TP");
        query.setConsumerGroup("G1");
        query.setClientId("10.0.0.1@1");
        query.setStrategyName("AVG");
        query.setMessageModel(MessageModel.CLUSTERING);
        body("QueryAssignmentBody", query);
        QueryAssignmentResponseBody answer = new QueryAssignmentResponseBody();
        body("QueueAssignments.null", answer);
        Set<MessageQueueAssignment> set = new LinkedHashSet<>();
        answer.setMessageQueueAssignments(set);
        body("QueueAssignments.empty", answer);
        MessageQueueAssignment one = new MessageQueueAssignment();
        one.setMessageQueue(new MessageQueue("TP", "broker-a", -1));
        one.setMode(MessageRequestMode.POP);
        set.add(one);
        body("QueueAssignments", answer);
        SetMessageRequestModeRequestBody mode = new SetMessageRequestModeRequestBody();
        mode.setTopic("TP");
        mode.setConsumerGroup("G1");
        mode.setMode(MessageRequestMode.POP);
        mode.setPopShareQueueNum(2);
        body("RequestModeBody", mode);
        MessageRequestModeManager modes = new MessageRequestModeManager(null);
        modes.setMessageRequestMode("TP", "G1", mode);
        text("file.messageRequestMode", modes.encode(true).replace("\n", "\\n").replace("\t", "\\t"));
        body("MessageRequestModes", wrapper(modes));
    }

    static RemotingSerializable wrapper(MessageRequestModeManager modes) {
        org.apache.rocketmq.remoting.protocol.body.MessageRequestModeSerializeWrapper all =
            new org.apache.rocketmq.remoting.protocol.body.MessageRequestModeSerializeWrapper();
        all.setMessageRequestModeMap(modes.getMessageRequestModeMap());
        return all;
    }

    static void handles() throws Exception {
        text("handle.normal", ExtraInfoUtil.buildExtraInfo(7, 1700000000123L, 60000, 1, "TP", "broker-a", 3, 9));
        text("handle.v1", ExtraInfoUtil.buildExtraInfo(7, 1700000000123L, 60000, 1, "%RETRY%G1_TP", "broker-a", 0, 9));
        text("handle.v2", ExtraInfoUtil.buildExtraInfo(7, 1700000000123L, 60000, 999, "%RETRY%G1+TP", "b b", 0, 9));
        text("handle.short", ExtraInfoUtil.buildExtraInfo(7, 1700000000123L, 60000, 1, "TP", "broker-a", 3));
        StringBuilder start = new StringBuilder();
        ExtraInfoUtil.buildStartOffsetInfo(start, "TP", 3, 7);
        ExtraInfoUtil.buildStartOffsetInfo(start, "%RETRY%G1_TP", 0, 2);
        text("startOffsetInfo", start.toString());
        StringBuilder offsets = new StringBuilder();
        ExtraInfoUtil.buildMsgOffsetInfo(offsets, "TP", 3, Arrays.asList(7L, 9L));
        ExtraInfoUtil.buildMsgOffsetInfo(offsets, "%RETRY%G1_TP", 0, Arrays.asList(2L));
        text("msgOffsetInfo", offsets.toString());
        StringBuilder counts = new StringBuilder();
        ExtraInfoUtil.buildQueueOffsetOrderCountInfo(counts, "TP", 3, 8, 1);
        ExtraInfoUtil.buildQueueOffsetOrderCountInfo(counts, "TP", 3, 10, 2);
        ExtraInfoUtil.buildQueueIdOrderCountInfo(counts, "TP", 3, 0);
        text("orderCountInfo", counts.toString());
        text("recall", RecallMessageHandle.HandleV1.buildHandle("TT", "broker-a", "1795336210001", "U3"));
    }

    static PopCheckPoint checkPoint() {
        PopCheckPoint ck = new PopCheckPoint();
        ck.setBitMap(0);
        ck.setNum((byte) 3);
        ck.setPopTime(1795336206471L);
        ck.setInvisibleTime(6000);
        ck.setStartOffset(7);
        ck.setCId("G1");
        ck.setTopic("TP");
        ck.setQueueId(3);
        ck.setBrokerName("broker-a");
        ck.addDiff(0);
        ck.addDiff(2);
        ck.addDiff(5);
        return ck;
    }

    static void records() {
        PopCheckPoint ck = checkPoint();
        text("record.ck", JSON.toJSONString(ck));
        ck.setRePutTimes("1");
        ck.setBitMap(5);
        ck.setReviveOffset(12);
        text("record.ck.again", JSON.toJSONString(ck));
        PopCheckPoint old = checkPoint();
        old.setQueueOffsetDiff(null);
        old.setBrokerName(null);
        text("record.ck.old", JSON.toJSONString(old));
        AckMsg ack = new AckMsg();
        ack.setAckOffset(9);
        ack.setStartOffset(7);
        ack.setConsumerGroup("G1");
        ack.setTopic("TP");
        ack.setQueueId(3);
        ack.setPopTime(1795336206471L);
        ack.setBrokerName("broker-a");
        text("record.ack", JSON.toJSONString(ack));
        BatchAckMsg batch = new BatchAckMsg();
        batch.setAckOffset(-1);
        batch.setStartOffset(7);
        batch.setConsumerGroup("G1");
        batch.setTopic("TP");
        batch.setQueueId(3);
        batch.setPopTime(1795336206471L);
        batch.setBrokerName("broker-a");
        batch.setAckOffsetList(new ArrayList<>(Arrays.asList(7L, 9L)));
        text("record.bAck", JSON.toJSONString(batch));
        batch.setBrokerName(null);
        batch.setAckOffset(0);
        text("record.bAck.flushed", JSON.toJSONString(batch));
    }

    static void orders() {
        ConsumerOrderInfoManager manager = new ConsumerOrderInfoManager();
        StringBuilder first = new StringBuilder();
        manager.update("att1", false, "TP", "G1", 3, 1700000000123L, 60000, Arrays.asList(8L, 10L, 11L), first);
        text("orders.first.counts", first.toString());
        text("orders.first.file", stable(manager.encode(true)));
        text("orders.first.next", "" + manager.commitAndNext("TP", "G1", 3, 10, 1700000000123L));
        StringBuilder second = new StringBuilder();
        manager.update("att2", false, "TP", "G1", 3, 1700000000999L, 60000, Arrays.asList(8L, 11L, 12L), second);
        text("orders.second.counts", second.toString());
        manager.updateNextVisibleTime("TP", "G1", 3, 8, 1700000000999L, 1700000090000L);
        text("orders.second.next", "" + manager.commitAndNext("TP", "G1", 3, 11, 1700000000999L));
        text("orders.second.stale", "" + manager.commitAndNext("TP", "G1", 3, 11, 1700000000123L));
        text("orders.second.illegal", "" + manager.commitAndNext("TP", "G1", 3, 99, 1700000000999L));
        text("orders.second.file", stable(manager.encode(true)));
        StringBuilder third = new StringBuilder();
        manager.update("att2", false, "TP", "G1", 3, 1700000001999L, 60000, Arrays.asList(8L, 11L, 12L), third);
        text("orders.third.counts", third.toString());
        text("orders.third.file", stable(manager.encode(false)));
    }

    /** The last-consume time is the wall clock's. */
    static String stable(String json) {
        return json.replaceAll("\"l\":\\d+", "\"l\":1795335893291").replace("\n", "\\n").replace("\t", "\\t");
    }

    static void timers(Path folder) throws Exception {
        long t = 1795336266000L;
        File wheelFile = folder.resolve("timerwheel").toFile();
        TimerWheel wheel = new TimerWheel(wheelFile.getPath(), 7 * 86400, 1000);
        wheel.putSlot(t, 104, 1560, 12, 0);
        wheel.putSlot(t + 1000, 156, 156, 1, 0);
        wheel.putSlot(t + 604800000L, 208, 260, -1, 0);
        wheel.flush();
        byte[] all = Files.readAllBytes(wheelFile.toPath());
        text("wheel.length", "" + all.length);
        for (long at : new long[] {t, t + 1000, t + 604800000L}) {
            int slot = wheel.getSlotIndex(at) * 32;
            bytes("wheel." + slot, Arrays.copyOfRange(all, slot, slot + 32));
        }
        TimerWheel fine = new TimerWheel(folder.resolve("fine").toString(), 7 * 86400, 100);
        fine.putSlot(t + 300, 0, 0, 1, 0);
        fine.flush();
        byte[] fineAll = Files.readAllBytes(folder.resolve("fine"));
        int fineSlot = fine.getSlotIndex(t + 300) * 32;
        bytes("wheel100ms." + fineSlot, Arrays.copyOfRange(fineAll, fineSlot, fineSlot + 32));

        TimerLog log = new TimerLog(folder.resolve("timerlog").toString(), 200);
        for (int i = 0; i < 5; i++) {
            ByteBuffer buffer = ByteBuffer.allocate(TimerLog.UNIT_SIZE);
            buffer.putInt(TimerLog.UNIT_SIZE);
            buffer.putLong(i == 0 ? -1 : 52L * (i - 1));
            buffer.putInt(i == 4 ? 5 : 1 + 2 * (i % 2));
            buffer.putLong(t);
            buffer.putInt(3000 + i);
            buffer.putLong(239 + i);
            buffer.putInt(271);
            buffer.putInt("TT".hashCode());
            buffer.putLong(0);
            text("timerlog.position", "" + log.append(buffer.array()));
        }
        log.getMappedFileQueue().flush(0);
        for (String name : folder.resolve("timerlog").toFile().list()) {
            bytes("timerlog." + name, Files.readAllBytes(folder.resolve("timerlog").resolve(name)));
        }

        TimerCheckpoint check = new TimerCheckpoint(folder.resolve("timercheck").toString());
        check.setLastReadTimeMs(1795336263000L);
        check.setLastTimerLogFlushPos(884);
        check.setLastTimerQueueOffset(17);
        check.setMasterTimerQueueOffset(18);
        check.getDataVersion().setTimestamp(1795336263764L);
        check.getDataVersion().setCounter(new java.util.concurrent.atomic.AtomicLong(54));
        check.flush();
        byte[] checkFile = Files.readAllBytes(folder.resolve("timercheck"));
        text("timercheck.length", "" + checkFile.length);
        bytes("timercheck", Arrays.copyOf(checkFile, 56));
        bytes("timercheck.wire", Arrays.copyOf(TimerCheckpoint.encode(check).array(), 56));

        TimerMetrics metrics = new TimerMetrics(folder.resolve("timermetrics").toString());
        MessageExt message = new MessageExt();
        message.setTopic("rmq_sys_wheel_timer");
        MessageAccessor.putProperty(message, "REAL_TOPIC", "TT");
        metrics.addAndGet(message, 3);
        text("timermetrics", metrics.encode().replaceAll("\"time[sS]tamp\":\\d+", "\"$0\"").replaceAll("\"\"(time[sS]tamp)\":\\d+\"", "\"$1\":1795336263764"));
    }
}
