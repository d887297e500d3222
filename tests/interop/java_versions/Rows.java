import static shared.Flows.expect;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import shared.Flows;

/**
 * What a client of RocketMQ does with a cluster, whichever its version: {@code Rows NAMESRV}.
 *
 * <p>Prints {@code ROW name ok}, {@code ROW name absent} where this version has no such call, or
 * {@code ROW name failed reason}. Compiled against 4.2 to the newest, so newer calls are looked up.
 */
public final class Rows {
    private static final int WAIT_S = 120;
    private static final int COUNT = 20;

    private final String namesrv;
    private final Set<String> failed = new HashSet<>();

    private Rows(String namesrv) {
        this.namesrv = namesrv;
    }

    public static void main(String[] args) throws Exception {
        Flows.endWithStandardInput();
        Rows rows = new Rows(args[0]);
        rows.row("send", rows::send);
        rows.row("push", () -> rows.receive("rows-push", "*", null, COUNT, false));
        rows.row("tags", () -> rows.receive("rows-tags", "TagA", null, COUNT / 2, false));
        rows.row("delay", rows::delay);
        rows.row("sql", () -> rows.receive("rows-sql", null, "number < 5", 5, false));
        rows.row("batch", rows::batch);
        rows.row("orderly", rows::orderly);
        rows.row("transaction", rows::transaction);
        rows.row("timer", rows::timer);
        rows.row("recall", rows::recall);
        rows.row("priority", rows::priority);
        rows.row("pop", () -> rows.receive("rows-pop", "*", null, COUNT, true));
        rows.row("request", rows::request);
        System.exit(rows.failed.isEmpty() ? 0 : 1);
    }

    // -- rows -----------------------------------------------------------------------------------

    private boolean send() throws Exception {
        DefaultMQProducer producer = producer("rows-send");
        for (int i = 0; i < COUNT; i++) {
            Message message = message("Rows", i % 2 == 0 ? "TagA" : "TagB", "m" + i);
            message.putUserProperty("number", Integer.toString(i));
            expect(producer.send(message).getSendStatus() == SendStatus.SEND_OK, "not stored");
        }
        producer.shutdown();
        return true;
    }

    private boolean receive(String group, String tags, String sql, int count, boolean pop)
        throws Exception {
        DefaultMQPushConsumer consumer = consumer(group);
        if (pop) {
            Method switchOff = method(DefaultMQPushConsumer.class, "setClientRebalance", boolean.class);
            if (switchOff == null) {
                return false;
            }
            switchOff.invoke(consumer, false);
        }
        if (sql == null) {
            consumer.subscribe("Rows", tags);
        } else {
            consumer.subscribe("Rows", MessageSelector.bySql(sql));
        }
        BlockingQueue<MessageExt> received = start(consumer);
        Set<String> bodies = new HashSet<>();
        while (bodies.size() < count) {
            MessageExt message = next(received, bodies.size() + " of " + count + " received");
            expect(bodies.add(text(message)), "twice: " + text(message));
        }
        expect(received.poll(300, TimeUnit.MILLISECONDS) == null, "more than " + count);
        consumer.shutdown();
        return true;
    }

    private boolean delay() throws Exception {
        DefaultMQProducer producer = producer("rows-delay");
        Message message = message("RowsDelay", "TagA", "delayed");
        message.setDelayTimeLevel(2);
        long sent = System.currentTimeMillis();
        producer.send(message);
        comesAt("RowsDelay", sent + 5_000);
        producer.shutdown();
        return true;
    }

    private boolean timer() throws Exception {
        Method later = method(Message.class, "setDelayTimeMs", long.class);
        if (later == null) {
            return false;
        }
        DefaultMQProducer producer = producer("rows-timer");
        Message message = message("RowsTimer", "TagA", "timed");
        later.invoke(message, 3_000L);
        long sent = System.currentTimeMillis();
        producer.send(message);
        comesAt("RowsTimer", sent + 2_000); // to the second before
        producer.shutdown();
        return true;
    }

    private boolean batch() throws Exception {
        DefaultMQProducer producer = producer("rows-batch");
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            messages.add(message("RowsBatch", "TagA", "b" + i));
        }
        expect(producer.send(messages).getSendStatus() == SendStatus.SEND_OK, "not stored");
        DefaultMQPushConsumer consumer = consumer("rows-batch");
        consumer.subscribe("RowsBatch", "*");
        BlockingQueue<MessageExt> received = start(consumer);
        Set<String> bodies = new HashSet<>();
        while (bodies.size() < 3) {
            expect(bodies.add(text(next(received, "of the batch: " + bodies))), "twice");
        }
        consumer.shutdown();
        producer.shutdown();
        return true;
    }

    /** One queue's messages, taken by a consumer that locks its queues. */
    private boolean orderly() throws Exception {
        DefaultMQProducer producer = producer("rows-orderly");
        for (int i = 0; i < COUNT; i++) {
            producer.send(message("RowsOrderly", "TagA", "o" + i), (queues, sent, key) -> queues.get(0), 0);
        }
        DefaultMQPushConsumer consumer = consumer("rows-orderly");
        consumer.subscribe("RowsOrderly", "*");
        BlockingQueue<MessageExt> received = new LinkedBlockingQueue<>();
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            received.addAll(messages);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        for (int i = 0; i < COUNT; i++) {
            String body = text(next(received, i + " of " + COUNT + " received"));
            expect(body.equals("o" + i), "out of order: " + body + " for o" + i);
        }
        consumer.shutdown();
        producer.shutdown();
        return true;
    }

    /** A recalled message never comes; the one that was sent beside it does. */
    private boolean recall() throws Exception {
        Method recall = method(DefaultMQProducer.class, "recallMessage", String.class, String.class);
        if (recall == null) {
            return false;
        }
        Method later = method(Message.class, "setDelayTimeMs", long.class);
        DefaultMQProducer producer = producer("rows-recall");
        for (String body : new String[] {"recalled", "kept"}) {
            Message message = message("RowsRecall", "TagA", body);
            later.invoke(message, 8_000L);
            SendResult sent = producer.send(message);
            if (body.equals("recalled")) {
                Object handle = SendResult.class.getMethod("getRecallHandle").invoke(sent);
                expect(handle != null, "no handle");
                recall.invoke(producer, "RowsRecall", handle);
            }
        }
        DefaultMQPushConsumer consumer = consumer("rows-recall");
        consumer.subscribe("RowsRecall", "*");
        BlockingQueue<MessageExt> received = start(consumer);
        String body = text(next(received, "the one that was kept"));
        expect(body.equals("kept"), "not recalled");
        expect(received.poll(3, TimeUnit.SECONDS) == null, "not recalled");
        consumer.shutdown();
        producer.shutdown();
        return true;
    }

    /** The broker answers with the queue of the message's priority, whichever the client chose. */
    private boolean priority() throws Exception {
        Method urgent = method(Message.class, "setPriority", int.class);
        if (urgent == null) {
            return false;
        }
        DefaultMQProducer producer = producer("rows-priority");
        producer.send(message("RowsPriority", "TagA", "make the topic"));
        for (int priority : new int[] {3, 0, 2, 99}) {
            Message message = message("RowsPriority", "TagA", "p" + priority);
            urgent.invoke(message, priority);
            int queue = producer.send(message).getMessageQueue().getQueueId();
            expect(queue == Math.min(priority, 3), "priority " + priority + " in queue " + queue);
        }
        producer.shutdown();
        return true;
    }

    private void comesAt(String topic, long earliest) throws Exception {
        DefaultMQPushConsumer consumer = consumer("rows-" + topic);
        consumer.subscribe(topic, "*");
        MessageExt got = next(start(consumer), topic);
        expect(got.getStoreTimestamp() >= earliest, "early: " + (earliest - got.getStoreTimestamp()));
        consumer.shutdown();
    }

    /** By number modulo 3 a transaction commits, rolls back, or commits when it is asked for. */
    private static LocalTransactionState decision(int number) {
        return number % 3 == 0 ? LocalTransactionState.COMMIT_MESSAGE
            : number % 3 == 1 ? LocalTransactionState.ROLLBACK_MESSAGE
            : LocalTransactionState.UNKNOW;
    }

    private boolean transaction() throws Exception {
        Class<?> type;
        try {
            type = Class.forName("org.apache.rocketmq.client.producer.TransactionListener");
        } catch (ClassNotFoundException e) {
            return false; // up to 4.2, whose brokers asked nobody
        }
        Set<String> asked = ConcurrentHashMap.newKeySet();
        Object listener = Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
            (proxy, called, arguments) -> {
                switch (called.getName()) {
                    case "executeLocalTransaction":
                        return decision((Integer) arguments[1]);
                    case "checkLocalTransaction":
                        String body = text((MessageExt) arguments[0]);
                        LocalTransactionState decided = decision(Integer.parseInt(body.substring(1)));
                        if (decided != LocalTransactionState.UNKNOW) {
                            return decided; // its decision was so long on the way that it is asked for
                        }
                        asked.add(body);
                        return LocalTransactionState.COMMIT_MESSAGE;
                    case "hashCode":
                        return 1;
                    default:
                        return proxy == arguments[0];
                }
            });
        TransactionMQProducer producer = new TransactionMQProducer("rows-transactions");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(WAIT_S * 1000);
        method(TransactionMQProducer.class, "setTransactionListener", type).invoke(producer, listener);
        producer.start();
        Method send = method(
            TransactionMQProducer.class, "sendMessageInTransaction", Message.class, Object.class);
        for (int i = 0; i < 9; i++) {
            send.invoke(producer, message("RowsTransactions", "TagA", "t" + i), i);
        }
        DefaultMQPushConsumer consumer = consumer("rows-transactions");
        consumer.subscribe("RowsTransactions", "*");
        BlockingQueue<MessageExt> received = start(consumer);
        Set<String> bodies = new HashSet<>();
        while (bodies.size() < 6) {
            expect(bodies.add(text(next(received, "committed: " + bodies))), "twice");
        }
        expect(!bodies.contains("t1") && !bodies.contains("t4") && !bodies.contains("t7"), "rolled back");
        expect(asked.size() == 3, "asked for " + asked);
        consumer.shutdown();
        producer.shutdown();
        return true;
    }

    /** The reply comes from another client of this process. */
    private boolean request() throws Exception {
        Class<?> callback;
        try {
            callback = Class.forName("org.apache.rocketmq.client.producer.RequestCallback");
        } catch (ClassNotFoundException e) {
            return false; // up to 4.5
        }
        Method ask = method(DefaultMQProducer.class, "request", Message.class, callback, long.class);
        Method reply = Class.forName("org.apache.rocketmq.client.utils.MessageUtil")
            .getMethod("createReplyMessage", Message.class, byte[].class);
        DefaultMQProducer replies = producer("rows-replies");
        DefaultMQPushConsumer consumer = consumer("rows-answers");
        consumer.subscribe("RowsRequests", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                for (MessageExt message : messages) {
                    if (message.getProperty("REPLY_TO_CLIENT") == null) {
                        continue;
                    }
                    byte[] body = ("re: " + text(message)).getBytes(StandardCharsets.UTF_8);
                    replies.send((Message) reply.invoke(null, message, body));
                }
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = producer("rows-requests");
        producer.send(message("RowsRequests", "TagA", "make the topic")); // has no requester
        consumer.start();
        // The forms that return the reply end in 5.3.3 as soon as the request is sent.
        CompletableFuture<String> answer = new CompletableFuture<>();
        Object told = Proxy.newProxyInstance(callback.getClassLoader(), new Class<?>[] {callback},
            (proxy, called, arguments) -> {
                if (called.getName().equals("onSuccess")) {
                    byte[] body = ((Message) arguments[0]).getBody();
                    answer.complete(new String(body, StandardCharsets.UTF_8));
                } else if (called.getName().equals("onException")) {
                    answer.completeExceptionally((Throwable) arguments[0]);
                }
                return null;
            });
        ask.invoke(producer, message("RowsRequests", "TagA", "how many"), told, WAIT_S * 1000L);
        expect(answer.get(WAIT_S, TimeUnit.SECONDS).equals("re: how many"), "reply");
        consumer.shutdown();
        producer.shutdown();
        replies.shutdown();
        return true;
    }

    // -- clients --------------------------------------------------------------------------------

    private DefaultMQProducer producer(String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(group);
        producer.setSendMsgTimeout(WAIT_S * 1000);
        producer.start();
        return producer;
    }

    private DefaultMQPushConsumer consumer(String group) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    private static BlockingQueue<MessageExt> start(DefaultMQPushConsumer consumer) throws Exception {
        BlockingQueue<MessageExt> received = new LinkedBlockingQueue<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            received.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return received;
    }

    private static MessageExt next(BlockingQueue<MessageExt> received, String what) throws Exception {
        MessageExt message = received.poll(WAIT_S, TimeUnit.SECONDS);
        expect(message != null, "nothing came: " + what);
        return message;
    }

    private static Message message(String topic, String tag, String body) {
        return new Message(topic, tag, body.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    // -- running --------------------------------------------------------------------------------

    private void row(String name, Callable<Boolean> body) {
        try {
            System.out.println("ROW " + name + (body.call() ? " ok" : " absent"));
        } catch (Throwable e) {
            Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
            failed.add(name);
            cause.printStackTrace();
            System.out.println("ROW " + name + " failed " + cause);
        }
    }

    private static Method method(Class<?> type, String name, Class<?>... parameters) {
        try {
            return type.getMethod(name, parameters);
        } catch (NoSuchMethodException e) {
            return null;
        }
    }
}
