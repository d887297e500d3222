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
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
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
 * client's name and {@code key=value}, separated by tabs. Each is answered by its id and {@code ok}
 * or {@code failed}, and the exception. A listener has a turn for each {@code go}.
 */
public final class Obedient {
    private final Map<String, DefaultMQProducer> producers = new ConcurrentHashMap<>();
    private final Map<String, DefaultMQPushConsumer> consumers = new ConcurrentHashMap<>();
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
            obey(words[1], words[2], options);
            return "ok";
        } catch (Exception e) {
            return "failed\t" + e.toString().replaceAll("\\s+", " ");
        }
    }

    private void obey(String verb, String name, Map<String, String> options) throws Exception {
        switch (verb) {
            case "producer" -> produce(name, options);
            case "consumer" -> consume(name, options);
            case "go" -> turns.get(name).release(number(options, "times", 1));
            case "send" -> send(producers.get(name), options);
            case "stop" -> stop(name);
            default -> throw new IllegalArgumentException(verb);
        }
    }

    private void stop(String name) {
        DefaultMQProducer producer = producers.remove(name);
        if (producer != null) {
            producer.shutdown();
        }
        DefaultMQPushConsumer consumer = consumers.remove(name);
        if (consumer != null) {
            consumer.shutdown();
        }
    }

    private static void configure(ClientConfig client, Map<String, String> options) {
        client.setNamesrvAddr(options.get("nameserver"));
        client.setClientIP("127.0.0.1");
        client.setInstanceName(options.get("instance"));
        client.setMqClientApiTimeout(60_000);
        client.setPollNameServerInterval(number(options, "poll_ms", 30_000));
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

    private void consume(String name, Map<String, String> options) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.get("group"));
        configure(consumer, options);
        if (options.getOrDefault("from", "last").equals("first")) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        }
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
        consumers.put(name, consumer);
        consumer.start();
    }
}
