package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.common.producer.RecallMessageHandle;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;

/**
 * A group that pops, delivery times and recalls:
 * {@code PopAndTime namesrv topic group count brokerAddr}. Every tenth message is refused once.
 *
 * <p>Prints {@code POPPED n distinct n retried n}, {@code TIMED n early n late n recalled n}.
 */
public final class PopAndTime {
    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(args, 5, "PopAndTime namesrv topic group count broker");
        String namesrv = arguments.text(0);
        String topic = arguments.text(1);
        String group = arguments.text(2);
        int count = arguments.number(3);
        String broker = arguments.text(4);
        int timed = 20;

        DefaultMQProducer producer = new DefaultMQProducer(group + "-producers");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(60_000);
        producer.setMqClientApiTimeout(60_000);
        producer.start();
        for (int i = 0; i < count; i++) {
            producer.send(new Message(topic, ("m" + i).getBytes(StandardCharsets.UTF_8)));
        }

        AtomicInteger received = new AtomicInteger();
        AtomicInteger retried = new AtomicInteger();
        Map<String, Integer> seen = new ConcurrentHashMap<>();
        AtomicInteger times = new AtomicInteger();
        AtomicInteger early = new AtomicInteger();
        AtomicInteger recalledSeen = new AtomicInteger();
        AtomicLong latest = new AtomicLong();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setClientRebalance(false);
        consumer.setMqClientApiTimeout(60_000);
        consumer.setPopInvisibleTime(60_000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                if (body.startsWith("at")) {
                    long due = Long.parseLong(body.substring(2, body.indexOf('-')));
                    long late = message.getStoreTimestamp() - due;
                    times.incrementAndGet();
                    latest.accumulateAndGet(late, Math::max);
                    if (late < 0) {
                        early.incrementAndGet();
                    }
                    if (body.endsWith("recalled")) {
                        recalledSeen.incrementAndGet();
                    }
                    continue;
                }
                boolean again = seen.merge(body, 1, Integer::sum) == 1
                    && Integer.parseInt(body.substring(1)) % 10 == 0;
                received.incrementAndGet();
                if (message.getReconsumeTimes() > 0) {
                    retried.incrementAndGet();
                }
                if (again) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        MQClientAPIImpl api =
            consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getMQClientAPIImpl();
        // The group exists once its heartbeat was taken.
        for (int tries = 0; ; tries++) {
            try {
                api.setMessageRequestMode(broker, topic, group, MessageRequestMode.POP, 0, 60_000);
                break;
            } catch (MQClientException e) {
                if (tries == 50) {
                    throw e;
                }
                Thread.sleep(200);
            }
        }

        int waiting = 0;
        long recalledDue = 0;
        for (int i = 0; i < timed; i++) {
            boolean recall = i % 5 == 4;
            // One to be recalled waits until the refused messages come, so that nobody has to hurry.
            recalledDue = System.currentTimeMillis() + 15_000;
            long due = recall ? recalledDue : System.currentTimeMillis() + 2500 + 100L * i;
            Message message = new Message(
                topic, ("at" + due + (recall ? "-recalled" : "-kept")).getBytes(StandardCharsets.UTF_8));
            if (i % 2 == 0) {
                message.setDeliverTimeMs(due);
            } else {
                message.setDelayTimeMs(due - System.currentTimeMillis());
            }
            SendResult result = producer.send(message);
            if (recall) {
                String id = producer.recallMessage(topic, result.getRecallHandle());
                if (!id.equals(result.getMsgId())) {
                    throw new IllegalStateException(id + " is not " + result.getMsgId());
                }
            } else {
                waiting++;
            }
        }
        try {
            String past = Long.toString(System.currentTimeMillis() - 1000);
            producer.recallMessage(
                topic, RecallMessageHandle.HandleV1.buildHandle(topic, "broker-a", past, "x"));
            System.out.println("RECALLED what is past");
        } catch (MQBrokerException e) {
            System.out.println("REFUSED " + e.getResponseCode());
        }
        Message far = new Message(topic, "far".getBytes(StandardCharsets.UTF_8));
        far.setDelayTimeMs(4L * 24 * 3600 * 1000);
        try {
            System.out.println("FAR " + producer.send(far).getSendStatus());
        } catch (MQBrokerException e) {
            System.out.println("FAR " + e.getResponseCode());
        }

        int refused = (count + 9) / 10;
        for (int tries = 0; tries < 600; tries++) {
            if (seen.size() == count && received.get() >= count + refused && times.get() >= waiting) {
                break;
            }
            Thread.sleep(100);
        }
        Thread.sleep(Math.max(0, recalledDue - System.currentTimeMillis()) + 1500);
        System.out.printf("POPPED %d distinct %d retried %d%n", received.get(), seen.size(), retried.get());
        System.out.printf("TIMED %d early %d late %d recalled %d%n",
            times.get(), early.get(), latest.get(), recalledSeen.get());
        consumer.shutdown();
        producer.shutdown();
        System.exit(0);
    }
}
