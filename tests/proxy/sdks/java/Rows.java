// RocketMQ's official Java SDK through a proxy: every row of its own table of features but lite
// topics. `java -cp JAR Rows.java 127.0.0.1:8081`; and with `priority`, the row that needs brokers
// like 5.5.
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.function.Predicate;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

public class Rows {
    static final ClientServiceProvider SDK = ClientServiceProvider.loadService();
    static ClientConfiguration where;

    static Producer producer(String topic) throws ClientException {
        return builder(topic).build();
    }

    static ProducerBuilder builder(String topic) {
        return SDK.newProducerBuilder().setClientConfiguration(where).setTopics(topic);
    }

    static MessageBuilder message(String topic, String body) {
        return SDK.newMessageBuilder().setTopic(topic).setTag("new")
                .setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    static String body(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    static SimpleConsumer simple(String group, String topic, FilterExpression expression)
            throws ClientException {
        return SDK.newSimpleConsumerBuilder().setClientConfiguration(where).setConsumerGroup(group)
                .setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(Map.of(topic, expression)).build();
    }

    static List<MessageView> some(SimpleConsumer consumer, int count) throws ClientException {
        List<MessageView> found = new ArrayList<>();
        while (found.size() < count) {
            found.addAll(consumer.receive(16, Duration.ofSeconds(20)));
        }
        return found;
    }

    /** Acknowledges so many messages of a topic, and returns what is in them. */
    static List<String> consumed(String group, String topic, FilterExpression expression, int count)
            throws Exception {
        List<String> bodies = new ArrayList<>();
        try (SimpleConsumer consumer = simple(group, topic, expression)) {
            for (MessageView each : some(consumer, count)) {
                bodies.add(body(each));
                consumer.ack(each);
            }
        }
        Collections.sort(bodies);
        return bodies;
    }

    static List<String> pushed(String group, String topic, int count, Predicate<MessageView> ok)
            throws Exception {
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch done = new CountDownLatch(count);
        try (PushConsumer consumer = pushing(group, topic, ok, seen, done)) {
            done.await();
        }
        return new ArrayList<>(seen);
    }

    /** A consumer that runs until it is closed; what it has seen is counted before it answers. */
    static PushConsumer pushing(String group, String topic, Predicate<MessageView> ok,
            List<String> seen, CountDownLatch done) throws Exception {
        return SDK.newPushConsumerBuilder().setClientConfiguration(where).setConsumerGroup(group)
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                .setMessageListener(message -> {
                    seen.add(body(message));
                    done.countDown();
                    return ok.test(message) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
                }).build();
    }

    static void normal() throws Exception {
        try (Producer producer = producer("orders")) {
            producer.send(message("orders", "zero").setTag("old").build());
            producer.send(message("orders", "one").addProperty("number", "1").build());
            producer.send(message("orders", "two").addProperty("number", "2").build());
        }
        try (SimpleConsumer consumer = simple("simple", "orders", new FilterExpression("new"))) {
            for (MessageView each : some(consumer, 2)) {
                if (body(each).equals("two")) {
                    consumer.ack(each);
                } else {
                    consumer.changeInvisibleDuration(each, Duration.ofSeconds(1));
                }
            }
            MessageView again = some(consumer, 1).get(0);
            consumer.ack(again);
            System.out.println("simple " + body(again) + " " + again.getDeliveryAttempt() + " "
                    + again.getTag().get());
        }
        FilterExpression second = new FilterExpression("number = 2", FilterExpressionType.SQL92);
        System.out.println("sql " + consumed("sql", "orders", second, 1));
        List<String> all = pushed("push", "orders", 3, message -> true);
        Collections.sort(all);
        System.out.println("push " + all);
    }

    static void ordered() throws Exception {
        try (Producer producer = producer("payments")) {
            for (String each : List.of("1", "2", "3", "4")) {
                producer.send(message("payments", each).setMessageGroup("customer-17").build());
            }
        }
        System.out.println("fifo " + pushed("fifo", "payments", 4, message -> true));
    }

    /** Two messages for later, of which the first is taken back; when the other is due. */
    static long delayed() throws Exception {
        try (Producer producer = producer("later")) {
            long due = System.currentTimeMillis() + 20_000;
            SendReceipt receipt =
                    producer.send(message("later", "never").setDeliveryTimestamp(due).build());
            producer.send(message("later", "due").setDeliveryTimestamp(due + 2_000).build());
            producer.recallMessage("later", receipt.getRecallHandle());
            return due + 2_000;
        }
    }

    static void transactions() throws Exception {
        Set<String> asked = new ConcurrentSkipListSet<>();
        ProducerBuilder checked = builder("deals").setTransactionChecker(message -> {
            asked.add(body(message));
            return body(message).equals("forgotten")
                    ? TransactionResolution.ROLLBACK : TransactionResolution.COMMIT;
        });
        try (Producer producer = checked.build()) {
            for (String each : List.of("rollback", "forgotten", "asked", "commit")) {
                Transaction transaction = producer.beginTransaction();
                producer.send(message("deals", each).build(), transaction);
                if (each.equals("commit")) {
                    transaction.commit();
                } else if (each.equals("rollback")) {
                    transaction.rollback();
                }
            }
            System.out.println("transactions "
                    + consumed("deals", "deals", FilterExpression.SUB_ALL, 2) + " " + asked);
        }
    }

    static void failing() throws Exception {
        try (Producer producer = producer("retried")) {
            producer.send(message("retried", "bad").build());
        }
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch once = new CountDownLatch(1);
        CountDownLatch twice = new CountDownLatch(2);
        // Open until the message is dead: closed before, it may not have said that the second try
        // failed, and nobody else would.
        try (PushConsumer consumer = pushing("retried", "retried", message -> {
            once.countDown();
            return false;
        }, seen, twice)) {
            once.await();
            long since = System.nanoTime();
            twice.await();
            long waited = System.nanoTime() - since;
            System.out.println("retried " + seen + " " + (waited >= 1_000_000_000L));
            System.out.println("dead " + dead());
        }
    }

    /** The dead letters of the group, whose topic is made with the first of them. */
    static List<String> dead() throws Exception {
        while (true) {
            try {
                return consumed("undertaker", "%DLQ%retried", FilterExpression.SUB_ALL, 1);
            } catch (ClientException | IllegalStateException untilItHasATopic) {
                Thread.sleep(200);
            }
        }
    }

    static void priority() throws Exception {
        try (Producer producer = producer("urgent")) {
            for (int value : List.of(1, 3, 2)) {
                producer.send(message("urgent", "" + value).setPriority(value).build());
            }
        }
        try (SimpleConsumer consumer = simple("urgent", "urgent", FilterExpression.SUB_ALL)) {
            System.out.println("priority " + some(consumer, 3).stream().map(Rows::body).toList());
        }
    }

    public static void main(String[] arguments) throws Exception {
        where = ClientConfiguration.newBuilder().setEndpoints(arguments[0])
                .setRequestTimeout(Duration.ofSeconds(60)).build();
        if (arguments.length > 1) {
            priority();
            System.exit(0);
        }
        long due = delayed();
        normal();
        ordered();
        transactions();
        failing();
        System.out.println("delayed " + consumed("delayed", "later", FilterExpression.SUB_ALL, 1)
                + " " + (System.currentTimeMillis() >= due));
        System.exit(0);
    }
}
