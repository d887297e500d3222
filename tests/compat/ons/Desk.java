package ons;

import static shared.Flows.expect;
import static shared.Flows.next;
import static shared.Flows.same;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

import com.aliyun.openservices.ons.api.Action;
import com.aliyun.openservices.ons.api.Admin;
import com.aliyun.openservices.ons.api.Consumer;
import com.aliyun.openservices.ons.api.Message;
import com.aliyun.openservices.ons.api.MessageSelector;
import com.aliyun.openservices.ons.api.ONSFactory;
import com.aliyun.openservices.ons.api.OnExceptionContext;
import com.aliyun.openservices.ons.api.Producer;
import com.aliyun.openservices.ons.api.PropertyKeyConst;
import com.aliyun.openservices.ons.api.PropertyValueConst;
import com.aliyun.openservices.ons.api.PullConsumer;
import com.aliyun.openservices.ons.api.SendCallback;
import com.aliyun.openservices.ons.api.SendResult;
import com.aliyun.openservices.ons.api.TopicPartition;
import com.aliyun.openservices.ons.api.batch.BatchConsumer;
import com.aliyun.openservices.ons.api.exception.ONSClientException;
import com.aliyun.openservices.ons.api.order.OrderAction;
import com.aliyun.openservices.ons.api.order.OrderConsumer;
import com.aliyun.openservices.ons.api.order.OrderProducer;
import com.aliyun.openservices.ons.api.transaction.TransactionProducer;
import com.aliyun.openservices.ons.api.transaction.TransactionStatus;
import shared.Flows;

/**
 * A program with Alibaba Cloud's client: {@code ons.Desk NAMESRV KEY SECRET [accounts]}.
 *
 * <p>Its topics must be there. Prints a row for each thing that it does; see {@link Flows}.
 * With {@code accounts} brokers know the key, so that a wrong secret must be refused.
 */
public final class Desk {
    private static final int COUNT = 20;

    private final String namesrv;
    private final String key;
    private final String secret;

    private Desk(String namesrv, String key, String secret) {
        this.namesrv = namesrv;
        this.key = key;
        this.secret = secret;
    }

    public static void main(String[] args) throws Exception {
        Flows.endWithStandardInput();
        Desk desk = new Desk(args[0], args[1], args[2]);
        Flows flows = new Flows()
            .with("send", desk::send)
            .with("async", desk::async)
            .with("one-way", desk::oneWay)
            .with("tags", desk::tags)
            .with("sql", desk::sql)
            .with("delay", desk::delay)
            .with("orderly", desk::orderly)
            .with("transaction", desk::transaction)
            .with("batch", desk::batch)
            .with("broadcast", desk::broadcast)
            .with("retry", desk::retry)
            .with("pull", desk::pull);
        if (args.length > 3) {
            flows.with("refused", new Desk(args[0], args[1], "wrong-secret")::refused);
        }
        flows.run();
        System.exit(0);
    }

    // -- rows -----------------------------------------------------------------------------------

    private void send() throws Exception {
        Producer producer = producer("GID_send");
        for (int i = 0; i < COUNT; i++) {
            Message message = message("OnsSend", "TagA", "s" + i);
            message.setKey("key-" + i);
            expect(!producer.send(message).getMessageId().isEmpty(), "no id");
        }
        BlockingQueue<Message> received = consume("GID_send", "OnsSend", "*");
        Map<String, String> keys = new HashMap<>();
        while (keys.size() < COUNT) {
            Message message = next(received, "of " + COUNT + ": " + keys.keySet());
            expect(keys.put(text(message), message.getKey()) == null, "twice");
        }
        same("key-7", keys.get("s7"));
        producer.shutdown();
    }

    private void async() throws Exception {
        Producer producer = producer("GID_async");
        CompletableFuture<SendResult> sent = new CompletableFuture<>();
        producer.sendAsync(message("OnsAsync", "TagA", "async"), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                sent.complete(result);
            }

            @Override
            public void onException(OnExceptionContext context) {
                sent.completeExceptionally(context.getException());
            }
        });
        same("OnsAsync", sent.get(Flows.WAIT_S, TimeUnit.SECONDS).getTopic());
        same("async", text(next(consume("GID_async", "OnsAsync", "*"), "the message")));
        producer.shutdown();
    }

    private void oneWay() throws Exception {
        Producer producer = producer("GID_one_way");
        producer.sendOneway(message("OnsOneWay", "TagA", "one way"));
        same("one way", text(next(consume("GID_one_way", "OnsOneWay", "*"), "the message")));
        producer.shutdown();
    }

    private void tags() throws Exception {
        Producer producer = producer("GID_tags");
        for (String tag : new String[] {"TagA", "TagB", "TagC"}) {
            producer.send(message("OnsTags", tag, "of " + tag));
        }
        BlockingQueue<Message> received = consume("GID_tags", "OnsTags", "TagA || TagC");
        Set<String> bodies = new TreeSet<>();
        bodies.add(text(next(received, "first")));
        bodies.add(text(next(received, "second")));
        same(Set.of("of TagA", "of TagC"), bodies);
        producer.shutdown();
    }

    private void sql() throws Exception {
        Producer producer = producer("GID_sql");
        for (int i = 0; i < 4; i++) {
            Message message = message("OnsSql", "TagA", "q" + i);
            message.putUserProperties("number", Integer.toString(i));
            producer.send(message);
        }
        BlockingQueue<Message> received = new LinkedBlockingQueue<>();
        Consumer consumer = ONSFactory.createConsumer(properties("GID_sql"));
        consumer.subscribe("OnsSql", MessageSelector.bySql("number > 1"), (message, context) -> {
            received.add(message);
            return Action.CommitMessage;
        });
        consumer.start();
        Set<String> bodies = new TreeSet<>();
        bodies.add(text(next(received, "first")));
        bodies.add(text(next(received, "second")));
        same(Set.of("q2", "q3"), bodies);
        producer.shutdown();
    }

    private void delay() throws Exception {
        BlockingQueue<Message> received = consume("GID_delay", "OnsDelay", "*");
        Producer producer = producer("GID_delay");
        Message message = message("OnsDelay", "TagA", "later");
        long due = System.currentTimeMillis() + 4_000;
        message.setStartDeliverTime(due);
        producer.send(message);
        same("later", text(next(received, "the message")));
        long early = due - System.currentTimeMillis();
        expect(early <= 1_000, "came " + early + " ms early"); // to the second before
        producer.shutdown();
    }

    /** Messages of one sharding key are in one queue and come in order. */
    private void orderly() throws Exception {
        OrderProducer producer = ONSFactory.createOrderProducer(properties("GID_orderly"));
        producer.start();
        String[] keys = {"anna", "bert", "carl"};
        for (int i = 0; i < COUNT; i++) {
            for (String shard : keys) {
                producer.send(message("OnsOrderly", shard, Integer.toString(i)), shard);
            }
        }
        BlockingQueue<Message> received = new LinkedBlockingQueue<>();
        Set<String> suspended = ConcurrentHashMap.newKeySet();
        Properties properties = properties("GID_orderly");
        properties.put(PropertyKeyConst.SuspendTimeMillis, "200");
        OrderConsumer consumer = ONSFactory.createOrderedConsumer(properties);
        consumer.subscribe("OnsOrderly", "*", (message, context) -> {
            if (text(message).equals("3") && suspended.add(message.getTag())) {
                return OrderAction.Suspend; // the queue waits, and begins with it
            }
            received.add(message);
            return OrderAction.Success;
        });
        consumer.start();
        Map<String, Integer> following = new HashMap<>();
        for (int i = 0; i < COUNT * keys.length; i++) {
            Message message = next(received, "message " + i);
            int expected = following.getOrDefault(message.getTag(), 0);
            same(Integer.toString(expected), text(message));
            following.put(message.getTag(), expected + 1);
        }
        same(Set.of(keys), suspended);
        consumer.shutdown();
        producer.shutdown();
    }

    /** By number modulo 3 a transaction commits, rolls back, or commits when it is asked for. */
    private static TransactionStatus decision(int number) {
        return number % 3 == 0 ? TransactionStatus.CommitTransaction
            : number % 3 == 1 ? TransactionStatus.RollbackTransaction
            : TransactionStatus.Unknow;
    }

    private void transaction() throws Exception {
        Set<String> asked = ConcurrentHashMap.newKeySet();
        Properties properties = properties("GID_transaction");
        properties.put(PropertyKeyConst.CheckImmunityTimeInSeconds, "1");
        TransactionProducer producer = ONSFactory.createTransactionProducer(properties, message -> {
            TransactionStatus decided = decision(Integer.parseInt(text(message).substring(1)));
            if (decided != TransactionStatus.Unknow) {
                return decided; // its decision was so long on the way that it is asked for
            }
            asked.add(text(message));
            return TransactionStatus.CommitTransaction;
        });
        producer.start();
        for (int i = 0; i < 9; i++) {
            try {
                producer.send(message("OnsPaid", "TagA", "p" + i), (sent, it) -> decision((Integer) it), i);
            } catch (RuntimeException e) {
                expect(i % 3 == 1, "failed: " + e); // it tells so that the program rolled back
            }
        }
        BlockingQueue<Message> received = consume("GID_paid", "OnsPaid", "*");
        Set<String> bodies = new TreeSet<>();
        while (bodies.size() < 6) {
            expect(bodies.add(text(next(received, "of 6: " + bodies))), "twice");
        }
        same(Set.of("p0", "p2", "p3", "p5", "p6", "p8"), bodies);
        same(Set.of("p2", "p5", "p8"), asked);
        producer.shutdown();
    }

    /** A listener that takes several messages at once. */
    private void batch() throws Exception {
        Producer producer = producer("GID_batch");
        for (int i = 0; i < COUNT; i++) {
            producer.send(message("OnsBatch", "TagA", "b" + i));
        }
        BlockingQueue<List<Message>> received = new LinkedBlockingQueue<>();
        Properties properties = properties("GID_batch");
        properties.put(PropertyKeyConst.ConsumeMessageBatchMaxSize, "8");
        BatchConsumer consumer = ONSFactory.createBatchConsumer(properties);
        consumer.subscribe("OnsBatch", "*", (messages, context) -> {
            received.add(new ArrayList<>(messages));
            return Action.CommitMessage;
        });
        consumer.start();
        Set<String> bodies = new TreeSet<>();
        int calls = 0;
        while (bodies.size() < COUNT) {
            for (Message message : next(received, "of " + COUNT + ": " + bodies)) {
                expect(bodies.add(text(message)), "twice");
            }
            calls++;
        }
        expect(calls < COUNT, "one at a time");
        consumer.shutdown();
        producer.shutdown();
    }

    private void broadcast() throws Exception {
        List<BlockingQueue<Message>> inboxes = new ArrayList<>();
        for (String name : new String[] {"first", "second"}) {
            Properties properties = properties("GID_broadcast");
            properties.put(PropertyKeyConst.MessageModel, PropertyValueConst.BROADCASTING);
            properties.put(PropertyKeyConst.InstanceName, name);
            inboxes.add(consume(properties, "OnsPrices", "*"));
        }
        Producer producer = producer("GID_prices");
        for (BlockingQueue<Message> inbox : inboxes) {
            untilItReads(inbox, producer);
        }
        for (int i = 0; i < COUNT; i++) {
            producer.send(message("OnsPrices", "TagA", "b" + i));
        }
        for (BlockingQueue<Message> inbox : inboxes) {
            Set<String> bodies = new TreeSet<>();
            while (bodies.size() < COUNT) {
                Message message = next(inbox, "of " + COUNT + ": " + bodies);
                expect(message.getTag().equals("probe") || bodies.add(text(message)), "twice");
            }
        }
        producer.shutdown();
    }

    /** A new broadcast consumer begins behind what is there when it gets a queue; there are four. */
    private static void untilItReads(BlockingQueue<Message> inbox, Producer producer) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Flows.WAIT_S);
        for (int round = 0, seen = 0; seen < 4; round++) {
            expect(System.nanoTime() < end, "it does not begin");
            for (int i = 0; i < 4; i++) {
                producer.send(message("OnsPrices", "probe", Integer.toString(round)));
            }
            seen = 0;
            while (seen < 4) {
                Message probe;
                if ((probe = inbox.poll(1, TimeUnit.SECONDS)) == null) {
                    break; // none of this round comes any more: another round
                }
                seen += text(probe).equals(Integer.toString(round)) ? 1 : 0;
            }
        }
    }

    /** A message that is refused comes again. */
    private void retry() throws Exception {
        BlockingQueue<Integer> tries = new LinkedBlockingQueue<>();
        Consumer consumer = ONSFactory.createConsumer(properties("GID_retry"));
        consumer.subscribe("OnsRetry", "*", (message, context) -> {
            tries.add(message.getReconsumeTimes());
            return message.getReconsumeTimes() == 0 ? Action.ReconsumeLater : Action.CommitMessage;
        });
        consumer.start();
        Producer producer = producer("GID_retry");
        producer.send(message("OnsRetry", "TagA", "again"));
        same(0, next(tries, "first try"));
        same(1, next(tries, "second try"));
        producer.shutdown();
    }

    /** A consumer that asks when the program does. */
    private void pull() throws Exception {
        Producer producer = producer("GID_pull");
        for (int i = 0; i < COUNT; i++) {
            producer.send(message("OnsPull", "TagA", "p" + i));
        }
        PullConsumer consumer = ONSFactory.createPullConsumer(properties("GID_pull"));
        consumer.start();
        Set<TopicPartition> queues = consumer.topicPartitions("OnsPull");
        consumer.assign(queues);
        for (TopicPartition queue : queues) {
            consumer.seekToBeginning(queue);
        }
        Set<String> bodies = new TreeSet<>();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Flows.WAIT_S);
        while (bodies.size() < COUNT) {
            expect(System.nanoTime() < end, bodies.size() + " of " + COUNT + " came");
            for (Message message : consumer.poll(1_000)) {
                bodies.add(text(message));
            }
        }
        consumer.commitSync();
        consumer.shutdown();
        producer.shutdown();
    }

    private void refused() throws Exception {
        Producer producer = producer("GID_refused");
        try {
            producer.send(message("OnsSend", "TagA", "refused"));
        } catch (ONSClientException e) {
            expect(String.valueOf(e).contains("signature"), "another reason: " + e);
            return;
        } finally {
            producer.shutdown();
        }
        throw new IllegalStateException("a wrong secret gets in");
    }

    // -- clients --------------------------------------------------------------------------------

    private Properties properties(String group) {
        Properties properties = new Properties();
        properties.put(PropertyKeyConst.NAMESRV_ADDR, namesrv);
        properties.put(PropertyKeyConst.GROUP_ID, group);
        properties.put(PropertyKeyConst.AccessKey, key);
        properties.put(PropertyKeyConst.SecretKey, secret);
        properties.put(PropertyKeyConst.SendMsgTimeoutMillis, "60000");
        return properties;
    }

    private Producer producer(String group) {
        Producer producer = ONSFactory.createProducer(properties(group));
        producer.start();
        return producer;
    }

    private BlockingQueue<Message> consume(String group, String topic, String tags) {
        return consume(properties(group), topic, tags);
    }

    private static BlockingQueue<Message> consume(Properties properties, String topic, String tags) {
        BlockingQueue<Message> received = new LinkedBlockingQueue<>();
        Consumer consumer = ONSFactory.createConsumer(properties);
        consumer.subscribe(topic, tags, (message, context) -> {
            received.add(message);
            return Action.CommitMessage;
        });
        consumer.start();
        return received;
    }

    private static Message message(String topic, String tag, String body) {
        return new Message(topic, tag, body.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
