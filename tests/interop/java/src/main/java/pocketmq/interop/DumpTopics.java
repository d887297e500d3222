package pocketmq.interop;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import com.alibaba.fastjson2.JSON;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Prints every message of the given topics (comma-separated), as RocketMQ's client reads it:
 * one JSON object a line, ordered by topic, broker, queue and offset. With {@code --query yes} each
 * line also says whether the message is found by its id and by its first key.
 */
public final class DumpTopics {
    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(args, 2, "DumpTopics NAMESRV TOPIC,TOPIC");
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("interop-dump");
        consumer.setNamesrvAddr(arguments.text(0));
        consumer.setMqClientApiTimeout(60_000);
        consumer.setConsumerPullTimeoutMillis(60_000);
        consumer.start();
        consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory()
            .getMQAdminImpl().setTimeoutMillis(60_000);
        try {
            for (String topic : arguments.text(1).split(",")) {
                List<MessageQueue> queues = new ArrayList<>(
                    consumer.fetchSubscribeMessageQueues(topic));
                queues.sort(Comparator.naturalOrder());
                for (MessageQueue queue : queues) {
                    dump(consumer, queue, arguments.option("query", "no").equals("yes"));
                }
            }
        } finally {
            consumer.shutdown();
        }
        System.exit(0);
    }

    private static void dump(DefaultMQPullConsumer consumer, MessageQueue queue, boolean query)
            throws Exception {
        long offset = consumer.minOffset(queue);
        long end = consumer.maxOffset(queue);
        while (offset < end) {
            PullResult result = consumer.pull(queue, "*", offset, 32);
            if (result.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt message : result.getMsgFoundList()) {
                    Map<String, Object> line = describe(message);
                    if (query) {
                        ask(consumer, queue.getTopic(), message, line);
                    }
                    System.out.println(JSON.toJSONString(line));
                }
            } else if (result.getNextBeginOffset() <= offset) {
                throw new IllegalStateException(queue + " stuck at " + offset + ": " + result);
            }
            offset = result.getNextBeginOffset();
        }
    }

    private static Map<String, Object> describe(MessageExt message) {
        Map<String, Object> line = new TreeMap<>();
        line.put("topic", message.getTopic());
        line.put("queueId", message.getQueueId());
        line.put("queueOffset", message.getQueueOffset());
        line.put("commitLogOffset", message.getCommitLogOffset());
        line.put("storeSize", message.getStoreSize());
        line.put("sysFlag", message.getSysFlag());
        line.put("flag", message.getFlag());
        line.put("bornTimestamp", message.getBornTimestamp());
        line.put("bornHost", message.getBornHost().toString());
        line.put("storeTimestamp", message.getStoreTimestamp());
        line.put("storeHost", message.getStoreHost().toString());
        line.put("reconsumeTimes", message.getReconsumeTimes());
        line.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        line.put("bodyCRC", message.getBodyCRC());
        line.put("bodySize", message.getBody().length);
        line.put("decompressedCrc", UtilAll.crc32(message.getBody()));
        line.put("msgId", message.getMsgId());
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        properties.keySet().removeAll(List.of("MIN_OFFSET", "MAX_OFFSET")); // put there by the pull
        line.put("properties", properties);
        return line;
    }

    private static void ask(
            DefaultMQPullConsumer consumer, String topic, MessageExt message,
            Map<String, Object> line) throws Exception {
        MessageExt viewed = view(consumer, topic, message);
        line.put("viewed", viewed.getCommitLogOffset() == message.getCommitLogOffset()
            || viewed.getMsgId().equals(message.getMsgId()));
        if (message.getKeys() != null) {
            String key = message.getKeys().split(" ")[0];
            line.put("queried", consumer
                .queryMessage(topic, key, 64, message.getStoreTimestamp() - 1000,
                    message.getStoreTimestamp() + 1000)
                .getMessageList().stream()
                .anyMatch(found -> found.getQueueOffset() == message.getQueueOffset()
                    && found.getQueueId() == message.getQueueId()));
        }
    }
    /**
     * By its id, as {@code consumer.viewMessage} does. That one asks for messages of the last three
     * days only, and a golden store is older.
     */
    private static MessageExt view(DefaultMQPullConsumer consumer, String topic, MessageExt message)
            throws Exception {
        String id = message.getMsgId();
        if (MessageClientIDSetter.getUniqID(message) == null) {
            return consumer.viewMessage(topic, id);
        }
        return consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory()
            .getMQAdminImpl().queryMessageByUniqKey(topic, id, 32, 0, Long.MAX_VALUE)
            .getMessageList().get(0);
    }
}
