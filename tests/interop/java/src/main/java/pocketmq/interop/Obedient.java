package pocketmq.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * Does with RocketMQ's clients what it is told over a connection to PORT: lines of an id, a verb, a
 * client's name and {@code key=value}, separated by tabs. Each is answered by its id and what came of
 * it: {@code ok}, what was read, or {@code failed} and the exception. A listener has a turn for each
 * {@code go}.
 */
public final class Obedient {
    private static final long POLL_MS = 1_000;
    private final Map<String, DefaultMQProducer> producers = new ConcurrentHashMap<>();
    private final Map<String, DefaultLitePullConsumer> pullers = new ConcurrentHashMap<>();
    private final Map<String, DefaultMQPullConsumer> readers = new ConcurrentHashMap<>();
    private final Map<String, Runnable> stops = new ConcurrentHashMap<>();
    private final Map<String, Semaphore> turns = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(args, 1, "Obedient PORT");
        Obedient obedient = new Obedient();
        ExecutorService threads = Executors.newCachedThreadPool();
        try (Socket socket = new Socket("127.0.0.1", arguments.number(0))) {
            BufferedReader in = new BufferedReader(
                new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            PrintWriter out = new PrintWriter(socket.getOutputStream(), true, StandardCharsets.UTF_8);
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split("\t");
                threads.execute(() -> out.println(words[0] + "\t" + obedient.outcome(words)));
            }
        } catch (IOException e) {
            System.err.println("nobody tells us what to do any more: " + e);
        }
        System.exit(0);
    }

    private String outcome(String[] words) {
        Map<String, String> options = new HashMap<>();
        for (int i = 3; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            options.put(pair[0], pair[1]);
        }
        try {
            return obey(words[1], words[2], options);
        } catch (Exception e) {
            return "failed\t" + e.toString().replaceAll("\\s+", " ");
        }
    }

    private String obey(String verb, String name, Map<String, String> options) throws Exception {
        switch (verb) {
            case "queues", "bounds", "read", "update", "progress" -> {
                return read(verb, readers.get(name), options);
            }
            case "puller" -> puller(name, options);
            case "reader" -> reader(name, options);
            case "assign", "poll", "commit" -> pull(verb, pullers.get(name), options);
            case "producer" -> produce(name, options);
            case "consumer" -> consume(name, options);
            case "go" -> turns.get(name).release(number(options, "times", 1));
            case "send" -> send(producers.get(name), options);
            case "stop" -> stops.remove(name).run();
            default -> throw new IllegalArgumentException(verb);
        }
        return "ok";
    }

    private static void configure(ClientConfig client, Map<String, String> options) {
        client.setNamesrvAddr(options.get("nameserver"));
        client.setClientIP("127.0.0.1");
        client.setInstanceName(options.get("instance"));
        client.setMqClientApiTimeout(60_000);
        client.setPollNameServerInterval(number(options, "poll_ms", 30_000));
        client.setHeartbeatBrokerInterval(number(options, "beat_ms", 30_000));
        client.setPersistConsumerOffsetInterval(number(options, "persist_ms", 5_000));
    }

    private static int number(Map<String, String> options, String name, int fallback) {
        return Integer.parseInt(options.getOrDefault(name, Integer.toString(fallback)));
    }

    private void produce(String name, Map<String, String> options) throws Exception {
        String group = options.get("group");
        DefaultMQProducer producer;
        if (options.containsKey("transaction")) {
            TransactionMQProducer transactional = new TransactionMQProducer(group);
            transactional.setTransactionListener(new TransactionListener() {
                @Override
                public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                    return LocalTransactionState.valueOf(options.get("transaction"));
                }

                @Override
                public LocalTransactionState checkLocalTransaction(MessageExt message) {
                    return LocalTransactionState.COMMIT_MESSAGE;
                }
            });
            producer = transactional;
        } else {
            producer = new DefaultMQProducer(group);
        }
        configure(producer, options);
        producer.setSendMsgTimeout(60_000);
        producers.put(name, producer);
        stops.put(name, producer::shutdown);
        producer.start();
    }

    private static void send(DefaultMQProducer producer, Map<String, String> options)
            throws Exception {
        Message message = new Message(
            options.get("topic"), options.get("body").getBytes(StandardCharsets.UTF_8));
        if (options.containsKey("tags")) {
            message.setTags(options.get("tags"));
        }
        if (options.containsKey("keys")) {
            message.setKeys(options.get("keys"));
        }
        if (options.containsKey("level")) {
            message.setDelayTimeLevel(number(options, "level", 0));
        }
        switch (options.getOrDefault("how", "sync")) {
            case "sync" -> producer.send(message);
            case "oneway" -> producer.sendOneway(message);
            case "batch" -> producer.send(List.of(message));
            case "queue" -> producer.send(
                message, new MessageQueue(options.get("topic"), options.get("broker"), 1));
            case "transaction" -> producer.sendMessageInTransaction(message, null);
            default -> throw new IllegalArgumentException(options.get("how"));
        }
    }

    private void puller(String name, Map<String, String> options) throws Exception {
        DefaultLitePullConsumer puller = new DefaultLitePullConsumer(options.get("group"));
        configure(puller, options);
        puller.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        puller.setAutoCommit(false);
        if (options.containsKey("topic")) {
            puller.subscribe(options.get("topic"), "*");
        }
        pullers.put(name, puller);
        stops.put(name, puller::shutdown);
        puller.start();
    }

    private static MessageQueue queue(Map<String, String> options) {
        return new MessageQueue(
            options.get("topic"), options.get("broker"), number(options, "queue", 0));
    }

    private static void pull(
            String verb, DefaultLitePullConsumer puller, Map<String, String> options)
            throws Exception {
        switch (verb) {
            case "assign" -> puller.assign(List.of(queue(options)));
            case "poll" -> {
                while (puller.poll(POLL_MS).isEmpty()) {
                    continue;
                }
            }
            default -> puller.commit();
        }
    }

    private void reader(String name, Map<String, String> options) throws Exception {
        DefaultMQPullConsumer reader = new DefaultMQPullConsumer(options.get("group"));
        configure(reader, options);
        readers.put(name, reader);
        stops.put(name, reader::shutdown);
        reader.start();
    }

    private static String read(
            String verb, DefaultMQPullConsumer reader, Map<String, String> options)
            throws Exception {
        if (verb.equals("queues")) {
            return reader.fetchSubscribeMessageQueues(options.get("topic")).size() + " queues";
        }
        MessageQueue queue = queue(options);
        switch (verb) {
            case "bounds" -> {
                return reader.minOffset(queue) + " " + reader.searchOffset(queue, 1) + " "
                    + reader.maxOffset(queue);
            }
            case "read" -> {
                int offset = number(options, "offset", 0);
                PullResult result = options.containsKey("wait")
                    ? reader.pullBlockIfNotFound(queue, "*", offset, 8)
                    : reader.pull(queue, "*", offset, 8);
                int count = result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
                return result.getPullStatus() + " " + count + " " + result.getNextBeginOffset();
            }
            case "update" -> {
                reader.updateConsumeOffset(queue, number(options, "offset", 0));
                return "ok";
            }
            default -> {
                return "" + reader.fetchConsumeOffset(queue, options.containsKey("stored"));
            }
        }
    }

    private void consume(String name, Map<String, String> options) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.get("group"));
        configure(consumer, options);
        if (options.getOrDefault("from", "last").equals("first")) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        }
        consumer.setClientRebalance(!options.containsKey("pop"));
        if (options.containsKey("broadcasting")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (options.containsKey("sql")) {
            consumer.subscribe(options.get("topic"), MessageSelector.bySql(options.get("sql")));
        } else {
            consumer.subscribe(options.get("topic"), options.getOrDefault("tags", "*"));
        }
        AtomicInteger toFail = new AtomicInteger(number(options, "fail", 0));
        Semaphore turn = new Semaphore(0);
        turns.put(name, turn);
        if (options.containsKey("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                turn.acquireUninterruptibly();
                return toFail.getAndDecrement() > 0
                    ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                    : ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                turn.acquireUninterruptibly();
                return toFail.getAndDecrement() > 0
                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        stops.put(name, consumer::shutdown);
        consumer.start();
    }
}
