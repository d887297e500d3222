package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The Java side of groups and conversations with members of two languages: {@code MixedMembers
 * NAMESRV COUNT}. The topics Booked, AskJava and AskPython exist already.
 *
 * <p>Sends COUNT half messages as group java-bookings, leaves them open and goes away; commits what
 * group python-bookings left open; asks COUNT requests on AskPython, and answers those on AskJava.
 * Prints {@code MIXED judged n replied n asked n} when it has done COUNT of each.
 */
public final class MixedMembers {
    private static final int LIMIT_S = 90;

    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(args, 2, "MixedMembers NAMESRV COUNT");
        String namesrv = arguments.text(0);
        int count = arguments.number(1);
        Set<String> judged = ConcurrentHashMap.newKeySet();
        AtomicInteger replied = new AtomicInteger();

        DefaultMQProducer replies = new DefaultMQProducer("java-replies");
        start(replies, namesrv);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("java-repliers");
        consumer.setNamesrvAddr(namesrv);
        consumer.setMqClientApiTimeout(60_000);
        consumer.setInstanceName("java-repliers");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("AskJava", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                for (MessageExt message : messages) {
                    byte[] body = bytes("java: " + text(message));
                    replies.send(MessageUtil.createReplyMessage(message, body));
                    replied.incrementAndGet();
                }
            } catch (Exception e) {
                e.printStackTrace();
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();

        TransactionMQProducer judge = transactions("python-bookings", judged);
        start(judge, namesrv);
        judge.send(new Message("Hello", bytes("one that never sent is known to no broker in 5.3.3")));
        TransactionMQProducer open = transactions("java-bookings", null);
        start(open, namesrv);
        for (int index = 0; index < count; index++) {
            Message message = new Message("Booked", "TagA", "java-" + index, bytes("seat"));
            open.sendMessageInTransaction(message, index);
        }
        open.shutdown();

        DefaultMQProducer asks = new DefaultMQProducer("java-asks");
        start(asks, namesrv);
        int asked = 0;
        for (int index = 0; index < count; index++) {
            Message request = new Message("AskPython", bytes(Integer.toString(index)));
            if (ask(asks, request).equals("python: " + index)) {
                asked++;
            }
        }

        long deadline = System.nanoTime() + LIMIT_S * 1_000_000_000L;
        while ((judged.size() < count || replied.get() < count) && System.nanoTime() < deadline) {
            Thread.sleep(50);
        }
        Thread.sleep(500); // the last answer to a check is one-way
        System.out.printf("MIXED judged %d replied %d asked %d%n", judged.size(), replied.get(), asked);
        System.exit(0);
    }

    /** Leaves all open; commits what it is asked for if {@code judged} is there. */
    private static TransactionMQProducer transactions(String group, Set<String> judged) {
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object index) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                if (judged == null) {
                    return LocalTransactionState.UNKNOW;
                }
                judged.add(message.getKeys());
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return producer;
    }

    /** The forms of {@code request} that return the reply end in 5.3.3 as soon as it is sent. */
    private static String ask(DefaultMQProducer producer, Message request) throws Exception {
        CompletableFuture<String> answer = new CompletableFuture<>();
        producer.request(request, new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                answer.complete(text(reply));
            }

            @Override
            public void onException(Throwable e) {
                answer.completeExceptionally(e);
            }
        }, LIMIT_S * 1000L);
        return answer.get(LIMIT_S, TimeUnit.SECONDS);
    }

    private static void start(DefaultMQProducer producer, String namesrv) throws Exception {
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(producer.getProducerGroup());
        producer.setSendMsgTimeout(60_000);
        producer.setMqClientApiTimeout(60_000);
        producer.start();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
