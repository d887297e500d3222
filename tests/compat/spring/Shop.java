package shop;

import static shared.Flows.expect;
import static shared.Flows.next;
import static shared.Flows.same;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.MessageModel;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.annotation.SelectorType;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalRequestCallback;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQPushConsumerLifecycleListener;
import org.apache.rocketmq.spring.core.RocketMQReplyListener;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.apache.rocketmq.spring.support.RocketMQHeaders;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;
import org.springframework.stereotype.Component;
import shared.Flows;

/**
 * A shop with RocketMQ's Spring Boot starter: {@code shop.Shop --rocketmq.name-server=ADDRESS}.
 *
 * <p>Its topics must be there. Prints a row for each thing that it does; see {@link Flows}.
 */
@SpringBootApplication
public class Shop {
    public static void main(String[] args) throws Exception {
        Flows.endWithStandardInput();
        SpringApplicationBuilder builder = new SpringApplicationBuilder(Shop.class)
            .web(WebApplicationType.NONE)
            .properties(
                "spring.main.banner-mode=off",
                "logging.level.root=warn",
                "rocketmq.producer.group=spring-shop",
                "rocketmq.producer.send-message-timeout=60000",
                "rocketmq.pull-consumer.group=spring-pull",
                "rocketmq.pull-consumer.topic=SpringPull");
        try (ConfigurableApplicationContext context = builder.run(args)) {
            System.out.println("ROW start ok");
            context.getBean(Doings.class).all().run();
        } catch (RuntimeException e) {
            e.printStackTrace();
            System.exit(1); // its consumers' threads would live on
        }
        System.out.println("ROW close ok");
        System.exit(0);
    }

    /** What is bought; JSON on its way. */
    public static class Order {
        public String kind;
        public int number;

        static Order of(String kind, int number) {
            Order order = new Order();
            order.kind = kind;
            order.number = number;
            return order;
        }

        @Override
        public String toString() {
            return kind + number;
        }
    }

    /** Reads from the first message on, also where a group is new. */
    interface FromTheFirst extends RocketMQPushConsumerLifecycleListener {
        @Override
        default void prepareStart(DefaultMQPushConsumer consumer) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setPollNameServerInterval(1_000); // its retry topic is there soon after its start
        }
    }

    /** Received orders, each kind apart. */
    static final class Inbox {
        private final Map<String, BlockingQueue<Order>> kinds = new ConcurrentHashMap<>();

        BlockingQueue<Order> of(String kind) {
            return kinds.computeIfAbsent(kind, any -> new LinkedBlockingQueue<>());
        }

        void put(Order order) {
            of(order.kind).add(order);
        }
    }

    /** A listener that keeps what it receives. */
    abstract static class Keeping implements RocketMQListener<Order>, FromTheFirst {
        final Inbox inbox = new Inbox();

        @Override
        public void onMessage(Order order) {
            inbox.put(order);
        }
    }

    // -- listeners ------------------------------------------------------------------------------

    @Component
    @RocketMQMessageListener(topic = "SpringOrders", consumerGroup = "spring-orders")
    static class Orders extends Keeping {}

    @Component
    @RocketMQMessageListener(
        topic = "SpringOrders", consumerGroup = "spring-paid", selectorExpression = "paid || sent")
    static class Paid extends Keeping {}

    @Component
    @RocketMQMessageListener(topic = "SpringOrders", consumerGroup = "spring-large",
        selectorType = SelectorType.SQL92, selectorExpression = "amount > 100")
    static class Large extends Keeping {}

    @Component
    @RocketMQMessageListener(topic = "SpringLater", consumerGroup = "spring-later")
    static class Later implements RocketMQListener<MessageExt>, FromTheFirst {
        final Map<String, CompletableFuture<MessageExt>> come = new ConcurrentHashMap<>();

        CompletableFuture<MessageExt> message(String body) {
            return come.computeIfAbsent(body, any -> new CompletableFuture<>());
        }

        @Override
        public void onMessage(MessageExt message) {
            message(new String(message.getBody(), StandardCharsets.UTF_8)).complete(message);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "SpringSteps", consumerGroup = "spring-steps",
        consumeMode = ConsumeMode.ORDERLY, suspendCurrentQueueTimeMillis = 200)
    static class Steps implements RocketMQListener<Order>, FromTheFirst {
        final BlockingQueue<Order> received = new LinkedBlockingQueue<>();
        final Set<String> refused = ConcurrentHashMap.newKeySet();

        @Override
        public void onMessage(Order order) {
            if (order.number == 3 && refused.add(order.kind)) {
                throw new IllegalStateException("not yet"); // the queue waits, and begins with it
            }
            received.add(order);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "SpringPrices", consumerGroup = "spring-prices",
        messageModel = MessageModel.BROADCASTING)
    static class Till extends Keeping {}

    @Component
    @RocketMQMessageListener(topic = "SpringPrices", consumerGroup = "spring-prices",
        messageModel = MessageModel.BROADCASTING, instanceName = "second")
    static class SecondTill extends Keeping {}

    @Component
    @RocketMQMessageListener(topic = "SpringRefused", consumerGroup = "spring-refused",
        maxReconsumeTimes = 1, delayLevelWhenNextConsume = 1)
    static class Refusing implements RocketMQListener<MessageExt>, FromTheFirst {
        final BlockingQueue<Integer> tries = new LinkedBlockingQueue<>();

        @Override
        public void onMessage(MessageExt message) {
            tries.add(message.getReconsumeTimes());
            throw new IllegalStateException("refused");
        }
    }

    @Component
    @RocketMQMessageListener(topic = "SpringAgain", consumerGroup = "spring-again",
        delayLevelWhenNextConsume = 1)
    static class Again implements RocketMQListener<MessageExt>, FromTheFirst {
        final BlockingQueue<MessageExt> tries = new LinkedBlockingQueue<>();

        @Override
        public void onMessage(MessageExt message) {
            tries.add(message);
            if (message.getReconsumeTimes() == 0) {
                throw new IllegalStateException("not at the first time");
            }
        }
    }

    @Component
    @RocketMQMessageListener(topic = "SpringPaid", consumerGroup = "spring-payments")
    static class Payments implements RocketMQListener<String>, FromTheFirst {
        final BlockingQueue<String> received = new LinkedBlockingQueue<>();

        @Override
        public void onMessage(String payment) {
            received.add(payment);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "SpringQuestions", consumerGroup = "spring-questions")
    static class Answers implements RocketMQReplyListener<String, String>, FromTheFirst {
        @Override
        public String onMessage(String question) {
            return "re: " + question;
        }
    }

    /** By number modulo 3 a payment commits, rolls back, or commits when it is asked for. */
    @RocketMQTransactionListener
    static class Accounts implements RocketMQLocalTransactionListener {
        final Set<String> asked = ConcurrentHashMap.newKeySet();

        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object number) {
            return decision((Integer) number);
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            String payment = new String((byte[]) message.getPayload(), StandardCharsets.UTF_8);
            RocketMQLocalTransactionState decided = decision(Integer.parseInt(payment.substring(1)));
            if (decided != RocketMQLocalTransactionState.UNKNOWN) {
                return decided; // its decision was so long on the way that it is asked for
            }
            asked.add(payment);
            return RocketMQLocalTransactionState.COMMIT;
        }

        private static RocketMQLocalTransactionState decision(int number) {
            return number % 3 == 0 ? RocketMQLocalTransactionState.COMMIT
                : number % 3 == 1 ? RocketMQLocalTransactionState.ROLLBACK
                : RocketMQLocalTransactionState.UNKNOWN;
        }
    }

    // -- what the shop does ---------------------------------------------------------------------

    @Component
    static class Doings {
        private static final int COUNT = 20;

        @Autowired private RocketMQTemplate template;
        @Autowired private Orders orders;
        @Autowired private Paid paid;
        @Autowired private Large large;
        @Autowired private Later later;
        @Autowired private Steps steps;
        @Autowired private Till till;
        @Autowired private SecondTill secondTill;
        @Autowired private Refusing refusing;
        @Autowired private Again again;
        @Autowired private Payments payments;
        @Autowired private Accounts accounts;

        Flows all() {
            return new Flows()
                .with("send", this::send)
                .with("async", this::async)
                .with("one-way", this::oneWay)
                .with("batch", this::batch)
                .with("headers", this::headers)
                .with("tags", this::tags)
                .with("sql", this::sql)
                .with("delay", this::delay)
                .with("timer", this::timer)
                .with("orderly", this::orderly)
                .with("broadcast", this::broadcast)
                .with("retry", this::retry)
                .with("dead-letter", this::deadLetter)
                .with("transaction", this::transaction)
                .with("request", this::request)
                .with("request-async", this::requestAsync)
                .with("pull", this::pull);
        }

        private void send() throws Exception {
            for (int i = 0; i < COUNT; i++) {
                stored(template.syncSend("SpringOrders", Order.of("send", i)));
            }
            allCome(orders.inbox.of("send"), COUNT);
        }

        private void async() throws Exception {
            List<CompletableFuture<SendResult>> results = new ArrayList<>();
            for (int i = 0; i < COUNT; i++) {
                CompletableFuture<SendResult> result = new CompletableFuture<>();
                results.add(result);
                template.asyncSend("SpringOrders", Order.of("async", i), new SendCallback() {
                    @Override
                    public void onSuccess(SendResult sent) {
                        result.complete(sent);
                    }

                    @Override
                    public void onException(Throwable e) {
                        result.completeExceptionally(e);
                    }
                });
            }
            for (CompletableFuture<SendResult> result : results) {
                stored(result.get(Flows.WAIT_S, TimeUnit.SECONDS));
            }
            allCome(orders.inbox.of("async"), COUNT);
        }

        private void oneWay() throws Exception {
            for (int i = 0; i < COUNT; i++) {
                template.sendOneWay("SpringOrders", Order.of("one-way", i));
            }
            allCome(orders.inbox.of("one-way"), COUNT);
        }

        private void batch() throws Exception {
            Collection<Message<Order>> messages = new ArrayList<>();
            for (int i = 0; i < COUNT; i++) {
                messages.add(MessageBuilder.withPayload(Order.of("batch", i)).build());
            }
            stored(template.syncSend("SpringOrders", messages));
            allCome(orders.inbox.of("batch"), COUNT);
        }

        /** A key and a header arrive as the message's KEYS and a property. */
        private void headers() throws Exception {
            stored(template.syncSend("SpringLater:now", MessageBuilder.withPayload("headers")
                .setHeader(RocketMQHeaders.KEYS, "key-1").setHeader("colour", "green").build()));
            MessageExt message = later.message("headers").get(Flows.WAIT_S, TimeUnit.SECONDS);
            same("key-1", message.getKeys());
            same("now", message.getTags());
            same("green", message.getProperty("colour"));
        }

        private void tags() throws Exception {
            for (String tag : new String[] {"open", "paid", "sent", "gone"}) {
                stored(template.syncSend("SpringOrders:" + tag, Order.of(tag, 0)));
            }
            next(paid.inbox.of("paid"), "tag paid");
            next(paid.inbox.of("sent"), "tag sent");
            next(orders.inbox.of("gone"), "tag gone");
            expect(paid.inbox.of("open").isEmpty() && paid.inbox.of("gone").isEmpty(), "not asked for");
        }

        private void sql() throws Exception {
            for (int amount : new int[] {50, 100, 101, 200}) {
                stored(template.syncSend("SpringOrders", MessageBuilder
                    .withPayload(Order.of("sql", amount)).setHeader("amount", amount).build()));
            }
            Set<Integer> amounts = new TreeSet<>();
            amounts.add(next(large.inbox.of("sql"), "amount > 100").number);
            amounts.add(next(large.inbox.of("sql"), "amount > 100").number);
            same(Set.of(101, 200), amounts);
        }

        private void delay() throws Exception {
            long sent = System.currentTimeMillis();
            stored(template.syncSend("SpringLater", MessageBuilder.withPayload("delay").build(), 60_000, 2));
            long stored = later.message("delay").get(Flows.WAIT_S, TimeUnit.SECONDS).getStoreTimestamp();
            expect(stored >= sent + 5_000, "early: after " + (stored - sent) + " ms");
        }

        private void timer() throws Exception {
            long sent = System.currentTimeMillis();
            stored(template.syncSendDelayTimeMills("SpringLater", "timer", 3_000));
            long stored = later.message("timer").get(Flows.WAIT_S, TimeUnit.SECONDS).getStoreTimestamp();
            expect(stored >= sent + 2_000, "early: after " + (stored - sent) + " ms"); // to the second before
        }

        /** Each order's steps are in one queue and come in order, also after one was refused. */
        private void orderly() throws Exception {
            String[] kinds = {"anna", "bert", "carl"};
            for (int i = 0; i < COUNT; i++) {
                for (String kind : kinds) {
                    stored(template.syncSendOrderly("SpringSteps", Order.of(kind, i), kind));
                }
            }
            Map<String, Integer> following = new ConcurrentHashMap<>();
            for (int i = 0; i < COUNT * kinds.length; i++) {
                Order order = next(steps.received, "step " + i);
                same(following.getOrDefault(order.kind, 0), order.number);
                following.put(order.kind, order.number + 1);
            }
            same(Set.of(kinds), steps.refused);
        }

        private void broadcast() throws Exception {
            for (int i = 0; i < COUNT; i++) {
                stored(template.syncSend("SpringPrices", Order.of("price", i)));
            }
            allCome(till.inbox.of("price"), COUNT);
            allCome(secondTill.inbox.of("price"), COUNT);
        }

        private void retry() throws Exception {
            stored(template.syncSend("SpringAgain", "again"));
            MessageExt first = next(again.tries, "first try");
            MessageExt second = next(again.tries, "second try");
            same(0, first.getReconsumeTimes());
            same(1, second.getReconsumeTimes());
            same("SpringAgain", second.getTopic());
            same(first.getMsgId(), second.getMsgId());
        }

        /** A message that is refused as often as the group tries goes to its dead letters. */
        private void deadLetter() throws Exception {
            stored(template.syncSend("SpringRefused", "refused"));
            same(0, next(refusing.tries, "first try"));
            same(1, next(refusing.tries, "second try"));
            String topic = "%DLQ%spring-refused";
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("spring-dead-letters");
            consumer.setNamesrvAddr(template.getProducer().getNamesrvAddr());
            consumer.setInstanceName("dead-letters");
            consumer.setPollNameServerInterval(1_000);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            BlockingQueue<MessageExt> received = new LinkedBlockingQueue<>();
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener(
                (MessageListenerConcurrently) (found, context) -> {
                    received.addAll(found);
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                });
            consumer.start();
            MessageExt dead = next(received, topic);
            same("refused", new String(dead.getBody(), StandardCharsets.UTF_8));
            same("SpringRefused", dead.getProperty("RETRY_TOPIC"));
            consumer.shutdown();
        }

        private void transaction() throws Exception {
            for (int i = 0; i < 9; i++) {
                stored(template.sendMessageInTransaction(
                    "SpringPaid", MessageBuilder.withPayload("p" + i).build(), i));
            }
            Set<String> received = new TreeSet<>();
            while (received.size() < 6) {
                expect(received.add(next(payments.received, "of 6: " + received)), "twice");
            }
            same(Set.of("p0", "p2", "p3", "p5", "p6", "p8"), received);
            same(Set.of("p2", "p5", "p8"), accounts.asked);
        }

        private void request() throws Exception {
            String answer = template.sendAndReceive("SpringQuestions", "how many", String.class, 60_000L);
            same("re: how many", String.valueOf(answer));
        }

        private void requestAsync() throws Exception {
            CompletableFuture<String> answer = new CompletableFuture<>();
            template.sendAndReceive("SpringQuestions", "how far", new RocketMQLocalRequestCallback<String>() {
                @Override
                public void onSuccess(String found) {
                    answer.complete(found);
                }

                @Override
                public void onException(Throwable e) {
                    answer.completeExceptionally(e);
                }
            }, 60_000L);
            same("re: how far", answer.get(Flows.WAIT_S, TimeUnit.SECONDS));
        }

        /** The template's own consumer, which asks when the program does. */
        private void pull() throws Exception {
            for (int i = 0; i < COUNT; i++) {
                stored(template.syncSend("SpringPull", Order.of("pull", i)));
            }
            Set<Integer> numbers = new TreeSet<>();
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Flows.WAIT_S);
            while (numbers.size() < COUNT) {
                expect(System.nanoTime() < end, numbers.size() + " of " + COUNT + " came");
                template.receive(Order.class, 1_000).forEach(order -> numbers.add(order.number));
            }
        }

        private static void stored(SendResult result) {
            same(SendStatus.SEND_OK, result.getSendStatus());
        }

        private static void allCome(BlockingQueue<Order> received, int count) throws Exception {
            Set<Integer> numbers = new TreeSet<>();
            while (numbers.size() < count) {
                expect(numbers.add(next(received, "of " + count + ": " + numbers).number), "twice");
            }
        }
    }
}
