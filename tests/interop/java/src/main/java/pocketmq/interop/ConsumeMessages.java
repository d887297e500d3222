package pocketmq.interop;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer that starts at the first offset and stops when EXPECTED distinct messages are
 * there and nothing follows for a grace period, or when TIMEOUT_S is over.
 *
 * <p>Prints {@code TAG tag n} and {@code QUEUE broker id count first last}, then
 * {@code RECEIVED n distinct d damaged x disordered y retried z}; exit status 0 when exactly EXPECTED
 * distinct messages came, all intact. Options: {@code --mode} concurrently or orderly,
 * {@code --type} tag or sql (of EXPRESSION), {@code --grace-ms} (1500), {@code --fail} tag (its messages are refused once, so that they
 * are sent back).
 */
public final class ConsumeMessages {
    private record Range(long first, long last, int count) {
    }

    private final String topic;
    private final String failingTag;
    private final Set<String> keys = new HashSet<>();
    private final Map<String, Integer> tags = new TreeMap<>();
    private final Map<String, Range> queues = new TreeMap<>();
    private int received;
    private int damaged;
    private int disordered;
    private final Set<String> retried = new HashSet<>();
    private long lastArrivalAt = System.nanoTime();

    private ConsumeMessages(String topic, String failingTag) {
        this.topic = topic;
        this.failingTag = failingTag;
    }

    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(
            args, 6, "ConsumeMessages NAMESRV GROUP TOPIC EXPRESSION EXPECTED TIMEOUT_S");
        ConsumeMessages tally = new ConsumeMessages(
            arguments.text(2), arguments.option("fail", ""));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.text(1));
        consumer.setNamesrvAddr(arguments.text(0));
        consumer.setMqClientApiTimeout(60_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (arguments.option("type", "tag").equals("sql")) {
            consumer.subscribe(arguments.text(2), MessageSelector.bySql(arguments.text(3)));
        } else {
            consumer.subscribe(arguments.text(2), arguments.text(3));
        }
        // The client loses a heartbeat when two of its threads send one at the same moment, and the
        // broker then knows an old subscription (25) until the next: by default 30 s later.
        consumer.setHeartbeatBrokerInterval(2000);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        // A refusal refuses all that the listener was given.
        consumer.setConsumeMessageBatchMaxSize(tally.failingTag.isEmpty() ? 8 : 1);
        if (arguments.option("mode", "concurrently").equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                tally.note(messages) ? ConsumeOrderlyStatus.SUCCESS
                    : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(1);
                return tally.note(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        consumer.start();
        boolean complete;
        try {
            complete = tally.await(
                arguments.number(4), arguments.number(5), arguments.option("grace-ms", 1500));
        } finally {
            consumer.shutdown();
        }
        tally.print();
        System.exit(complete ? 0 : 1);
    }

    /** Counts the messages; false when the listener shall refuse them (once). */
    private synchronized boolean note(List<MessageExt> messages) {
        boolean accepted = true;
        for (MessageExt message : messages) {
            if (message.getTags().equals(failingTag) && message.getReconsumeTimes() == 0) {
                accepted = false;
            }
        }
        lastArrivalAt = System.nanoTime();
        notifyAll();
        if (!accepted) {
            return false;
        }
        for (MessageExt message : messages) {
            received++;
            if (!Contents.intact(topic, message)) {
                damaged++;
            }
            if (keys.add(message.getKeys())) {
                tags.merge(message.getTags(), 1, Integer::sum);
            }
            if (message.getReconsumeTimes() > 0) {
                // A key counts once: the client sends back a second time what took over 5 s.
                retried.add(message.getKeys());
                continue; // queue and offset are those of the retry topic
            }
            long offset = message.getQueueOffset();
            queues.merge(
                message.getBrokerName() + " " + message.getQueueId(),
                new Range(offset, offset, 1),
                (known, one) -> {
                    disordered += offset <= known.last ? 1 : 0;
                    return new Range(
                        Math.min(known.first, offset), Math.max(known.last, offset),
                        known.count + 1);
                });
        }
        return true;
    }

    private synchronized boolean await(int expected, int timeoutSeconds, int graceMs)
            throws InterruptedException {
        long deadline = System.nanoTime() + timeoutSeconds * 1_000_000_000L;
        while (System.nanoTime() < deadline) {
            long quietMs = (System.nanoTime() - lastArrivalAt) / 1_000_000;
            if (keys.size() >= expected && quietMs >= graceMs) {
                break;
            }
            wait(50);
        }
        return keys.size() == expected && damaged == 0;
    }

    private synchronized void print() {
        tags.forEach((tag, count) -> System.out.printf("TAG %s %d%n", tag, count));
        queues.forEach((queue, range) -> System.out.printf(
            "QUEUE %s %d %d %d%n", queue, range.count, range.first, range.last));
        System.out.printf(
            "RECEIVED %d distinct %d damaged %d disordered %d retried %d%n",
            received, keys.size(), damaged, disordered, retried.size());
    }
}
