package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Says once nearly everything that a RocketMQ client says to nameserver and broker, so that a
 * recording proxy can write it down. Transactions are {@link SendTransactions}' part.
 */
public final class Conversation {
    private static final String TOPIC = "Recorded";
    private static final String EMPTY_TOPIC = "RecordedEmpty";
    private static final String REQUEST_TOPIC = "RecordedRequests";

    private final String namesrv;

    private Conversation(String namesrv) {
        this.namesrv = namesrv;
    }

    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(args, 1, "Conversation NAMESRV");
        Conversation conversation = new Conversation(arguments.text(0));
        SendResult sent = conversation.produce();
        conversation.lookUp(sent);
        conversation.consumeConcurrently();
        conversation.consumeOrderly();
        conversation.filterBySql();
        conversation.requestAndReply();
        System.out.println("DONE");
        System.exit(0);
    }

    private DefaultMQProducer producer(String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(namesrv);
        producer.start();
        return producer;
    }

    private DefaultMQPushConsumer consumer(String group) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        return consumer;
    }

    private SendResult produce() throws Exception {
        DefaultMQProducer producer = producer("recorded-producer");
        producer.createTopic("TBW102", TOPIC, 2, null);
        producer.createTopic("TBW102", EMPTY_TOPIC, 1, null);
        Message first = Contents.message(TOPIC, 0, 0);
        first.putUserProperty("user", "value");
        SendResult result = producer.send(first);
        producer.sendOneway(Contents.message(TOPIC, 1, 0));
        producer.send(Contents.message(TOPIC, 2, 5000)); // compressed: over 4 KiB
        Message delayed = Contents.message(TOPIC, 3, 0);
        delayed.setDelayTimeLevel(1);
        producer.send(delayed);
        List<Message> batch = new ArrayList<>();
        for (int index = 4; index < 7; index++) {
            batch.add(Contents.message(TOPIC, index, 0));
        }
        producer.send(batch);
        producer.send(new Message("RecordedAuto", "TagA", "key-00000000", new byte[] {1}));
        producer.shutdown();
        return result;
    }

    private void lookUp(SendResult sent) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("recorded-pull");
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(TOPIC);
        MessageQueue queue = sent.getMessageQueue();
        if (!queues.contains(queue)) {
            throw new IllegalStateException(queue + " not in " + queues);
        }
        long end = consumer.maxOffset(queue);
        consumer.minOffset(queue);
        consumer.searchOffset(queue, System.currentTimeMillis() - 60_000);
        consumer.earliestMsgStoreTime(queue);
        consumer.viewMessage(TOPIC, sent.getOffsetMsgId());
        consumer.queryMessage(TOPIC, "key-00000000", 8, 0, Long.MAX_VALUE);
        consumer.pull(queue, "*", 0, 2);
        consumer.pull(queue, "*", end, 2);           // nothing new
        consumer.pull(queue, "*", end + 100, 2);     // an offset that never was
        consumer.pull(queue, "TagNever", 0, 2);      // nothing matches
        for (MessageQueue empty : consumer.fetchSubscribeMessageQueues(EMPTY_TOPIC)) {
            consumer.fetchConsumeOffset(empty, true); // never committed
        }
        consumer.updateConsumeOffset(queue, 1);
        consumer.getOffsetStore().persist(queue);
        consumer.fetchConsumeOffset(queue, true);
        consumer.shutdown();
    }

    private void consumeConcurrently() throws Exception {
        CountDownLatch retried = new CountDownLatch(1);
        DefaultMQPushConsumer first = consumer("recorded-group");
        first.subscribe(TOPIC, "TagA || TagC");
        first.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            if (messages.get(0).getReconsumeTimes() > 0) {
                retried.countDown();
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }
            return messages.get(0).getKeys().equals("key-00000000")
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        first.start();
        await(retried, "a message that was sent back");
        DefaultMQPushConsumer second = consumer("recorded-group");
        second.setInstanceName("second"); // a client of its own, so that the first gets a notice
        second.subscribe(TOPIC, "TagA || TagC");
        second.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
            ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        second.start();
        second.shutdown();
        first.shutdown();
    }

    private void consumeOrderly() throws Exception {
        CountDownLatch consumed = new CountDownLatch(6);
        DefaultMQPushConsumer consumer = consumer("recorded-orderly");
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(message -> consumed.countDown());
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        await(consumed, "ordered messages");
        consumer.shutdown();
    }

    private void filterBySql() throws Exception {
        CountDownLatch consumed = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = consumer("recorded-sql");
        consumer.subscribe(TOPIC, MessageSelector.bySql("user = 'value'"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            consumed.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(consumed, "a message chosen by SQL");
        consumer.shutdown();
    }

    private void requestAndReply() throws Exception {
        DefaultMQProducer producer = producer("recorded-requests");
        producer.createTopic("TBW102", REQUEST_TOPIC, 1, null);
        DefaultMQPushConsumer consumer = consumer("recorded-replies");
        consumer.subscribe(REQUEST_TOPIC, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                byte[] body = "reply".getBytes(StandardCharsets.UTF_8);
                producer.send(MessageUtil.createReplyMessage(messages.get(0), body));
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        CountDownLatch replied = new CountDownLatch(1);
        MessageQueue queue = producer.fetchPublishMessageQueues(REQUEST_TOPIC).get(0);
        // Only the form with a queue waits for the reply in 5.3.3; the others return when sent.
        producer.request(Contents.message(REQUEST_TOPIC, 0, 0), queue, new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                replied.countDown();
            }

            @Override
            public void onException(Throwable cause) {
                System.err.println("request failed: " + cause);
            }
        }, 60_000);
        await(replied, "reply");
        consumer.shutdown();
        producer.shutdown();
    }

    private static void await(CountDownLatch latch, String what) throws InterruptedException {
        if (!latch.await(90, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no " + what + " within 90 s");
        }
    }
}
