import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * RocketMQ's own client as a load: the same program for PocketMQ's broker and for RocketMQ's.
 *
 * <pre>
 * sync    NAMESRV TOPIC BYTES MESSAGES THREADS     one message, then its answer, on each thread
 * async   NAMESRV TOPIC BYTES MESSAGES WINDOW      so many messages in flight
 * topics  NAMESRV TOPIC BYTES MESSAGES WINDOW COUNT  the same, in turn to TOPIC-0, TOPIC-1, ...
 * batch   NAMESRV TOPIC BYTES MESSAGES THREADS     32 messages a request
 * transaction NAMESRV TOPIC BYTES MESSAGES THREADS committed at once, one after the other a thread
 * consume NAMESRV TOPIC GROUP MESSAGES             a backlog, by push consumer
 * pop     NAMESRV TOPIC GROUP MESSAGES             the same, its queues assigned by the broker
 * latency NAMESRV TOPIC BYTES RATE SECONDS         from before the send to the listener
 * first   NAMESRV TOPIC                            one acknowledged send
 * member  NAMESRV TOPIC GROUP                      a member of a group, until it is killed
 * survive NAMESRV TOPIC GROUP                      the other member: see `survive`
 * </pre>
 *
 * Sends are warmed up by a fifth of the messages, which do not count. What is not answered with
 * SEND_OK counts as refused. The last line is JSON.
 */
public final class Load {
    private static final int BATCH = 32;

    public static void main(String[] args) {
        System.setProperty("rocketmq.client.logUseSlf4j", "false");
        try {
            measure(args);
            System.exit(0);
        } catch (Exception e) {  // threads of the client would go on without an end
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static void measure(String[] args) throws Exception {
        String json = switch (args[0]) {
            case "sync", "batch", "async", "transaction" -> send(args[0], args[1],
                () -> args[2], number(args[3]), number(args[4]), number(args[5]));
            case "topics" -> send("async", args[1], inTurn(args[2], number(args[6])),
                number(args[3]), number(args[4]), number(args[5]));
            case "consume", "pop" -> consume(args[0], args[1], args[2], args[3], number(args[4]));
            case "latency" -> latency(args[1], args[2], number(args[3]), number(args[4]),
                number(args[5]));
            case "first" -> first(args[1], args[2]);
            case "member" -> member(args[1], args[2], args[3]);
            case "survive" -> survive(args[1], args[2], args[3]);
            default -> throw new IllegalArgumentException(args[0]);
        };
        System.out.println(json);
    }

    private static int number(String text) {
        return Integer.parseInt(text);
    }

    private static Supplier<String> inTurn(String topic, int count) {
        AtomicInteger next = new AtomicInteger();
        return () -> topic + "-" + next.getAndIncrement() % count;
    }

    private static DefaultMQProducer producer(String namesrv) throws Exception {
        return started(new DefaultMQProducer("load"), namesrv);
    }

    private static TransactionMQProducer transactionProducer(String namesrv) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("load-transactions");
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return started(producer, namesrv);
    }

    private static <P extends DefaultMQProducer> P started(P producer, String namesrv)
        throws Exception {
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("load-" + System.nanoTime());
        producer.setSendMsgTimeout(10_000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.setVipChannelEnabled(false);
        producer.start();
        return producer;
    }

    private static String send(String how, String namesrv, Supplier<String> topic, int bytes,
        int messages, int parallel) throws Exception {
        DefaultMQProducer producer =
            how.equals("transaction") ? transactionProducer(namesrv) : producer(namesrv);
        run(producer, how, topic, new byte[bytes], messages / 5, parallel);
        long began = System.nanoTime();
        int refused = run(producer, how, topic, new byte[bytes], messages, parallel);
        double seconds = (System.nanoTime() - began) / 1e9;
        return String.format("{\"messages\": %d, \"seconds\": %.6f, \"refused\": %d}", messages,
            seconds, refused);
    }

    private static int run(DefaultMQProducer producer, String how, Supplier<String> topic,
        byte[] body, int messages, int parallel) throws Exception {
        return how.equals("async")
            ? async(producer, topic, body, messages, parallel)
            : threads(producer, how, topic.get(), body, messages, parallel);
    }

    private static int threads(DefaultMQProducer producer, String how, String topic, byte[] body,
        int messages, int parallel) throws Exception {
        int batch = how.equals("batch") ? BATCH : 1;
        AtomicInteger left = new AtomicInteger(messages);
        AtomicInteger refused = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int n = 0; n < parallel; n++) {
            Thread thread = new Thread(() -> {
                while (left.addAndGet(-batch) > -batch) {
                    try {
                        SendResult result;
                        if (how.equals("transaction")) {
                            result = producer.sendMessageInTransaction(
                                new Message(topic, "TagA", body), null);
                        } else if (batch == 1) {
                            result = producer.send(new Message(topic, "TagA", body));
                        } else {
                            List<Message> many = new ArrayList<>(batch);
                            for (int m = 0; m < batch; m++) {
                                many.add(new Message(topic, "TagA", body));
                            }
                            result = producer.send(many);
                        }
                        if (result.getSendStatus() != SendStatus.SEND_OK) {
                            refused.addAndGet(batch);
                        }
                    } catch (Exception e) {
                        refused.addAndGet(batch);
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return refused.get();
    }

    private static int async(DefaultMQProducer producer, Supplier<String> topic, byte[] body,
        int messages, int window) throws Exception {
        Semaphore slots = new Semaphore(window);
        AtomicInteger refused = new AtomicInteger();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                if (result.getSendStatus() != SendStatus.SEND_OK) {
                    refused.incrementAndGet();
                }
                slots.release();
            }

            @Override
            public void onException(Throwable error) {
                refused.incrementAndGet();
                slots.release();
            }
        };
        for (int n = 0; n < messages; n++) {
            slots.acquire();
            producer.send(new Message(topic.get(), "TagA", body), callback);
        }
        slots.acquire(window);
        return refused.get();
    }

    private static DefaultMQPushConsumer consumer(String namesrv, String topic, String group,
        MessageListenerConcurrently listener) throws Exception {
        return consumer("consume", namesrv, topic, group, listener);
    }

    private static DefaultMQPushConsumer consumer(String how, String namesrv, String topic,
        String group, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setClientRebalance(!how.equals("pop"));
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("load-" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeMessageBatchMaxSize(BATCH);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    private static String consume(String how, String namesrv, String topic, String group,
        int messages) throws Exception {
        AtomicInteger seen = new AtomicInteger();
        AtomicLong first = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        long started = System.nanoTime();
        DefaultMQPushConsumer consumer = consumer(how, namesrv, topic, group, (batch, context) -> {
            first.compareAndSet(0, System.nanoTime());
            if (seen.addAndGet(batch.size()) >= messages) {
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        done.await();
        double seconds = (System.nanoTime() - first.get()) / 1e9;
        return String.format(
            "{\"messages\": %d, \"seconds\": %.6f, \"first_s\": %.6f, \"pauses\": %d}",
            seen.get(), seconds, (first.get() - started) / 1e9, pauses(consumer));
    }

    /** How often the client waited 50 ms before a pull or pop, since it held too much already. */
    private static long pauses(DefaultMQPushConsumer consumer) throws Exception {
        Field times = DefaultMQPushConsumerImpl.class.getDeclaredField("queueFlowControlTimes");
        times.setAccessible(true);
        return times.getLong(consumer.getDefaultMQPushConsumerImpl());
    }

    private static String latency(String namesrv, String topic, int bytes, int rate, int seconds)
        throws Exception {
        int total = rate * seconds;
        int warm = rate * 2;
        long[] took = new long[total];
        AtomicInteger seen = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(total);
        AtomicInteger ready = new AtomicInteger();
        first(namesrv, topic);  // a consumer looks for a route that it did not find 30 s later
        consumer(namesrv, topic, "latency-" + System.nanoTime(), (batch, context) -> {
            long now = System.nanoTime();
            for (MessageExt message : batch) {
                long sent = Long.parseLong(message.getProperty("sent"));
                if (sent == 0) {
                    ready.incrementAndGet();
                } else {
                    int at = seen.getAndIncrement() - warm;
                    if (at >= 0 && at < total) {
                        took[at] = now - sent;
                        done.countDown();
                    }
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = producer(namesrv);
        while (ready.get() < 4 * 8) {  // until every queue is being pulled
            producer.send(stamped(topic, new byte[bytes], 0));
            LockSupport.parkNanos(2_000_000);
        }
        SendCallback ignored = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
            }

            @Override
            public void onException(Throwable error) {
                System.err.println(error);
            }
        };
        long began = System.nanoTime();
        for (int n = 0; n < total + warm; n++) {
            long due = began + n * 1_000_000_000L / rate;
            while (System.nanoTime() < due) {
                LockSupport.parkNanos(50_000);
            }
            producer.send(stamped(topic, new byte[bytes], System.nanoTime()), ignored);
        }
        done.await();
        Arrays.sort(took);
        return String.format("{\"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f}",
            took[total / 2] / 1e6, took[total * 99 / 100] / 1e6, took[total * 999 / 1000] / 1e6);
    }

    private static Message stamped(String topic, byte[] body, long sent) {
        Message message = new Message(topic, "TagA", body);
        message.putUserProperty("sent", Long.toString(sent));
        return message;
    }

    private static String first(String namesrv, String topic) throws Exception {
        producer(namesrv).send(new Message(topic, "TagA", new byte[1]));
        return "{\"sent\": 1}";
    }

    private static String member(String namesrv, String topic, String group) throws Exception {
        consumer(namesrv, topic, group,
            (batch, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        System.out.println("started");
        new CountDownLatch(1).await();
        return "{}";
    }

    /**
     * Sends 400 messages a second, and is the member of the group that lives on. Prints "shared"
     * when some queue has been another member's for a second, waits for a line, which says that the
     * other one has just been killed, and measures until every queue has brought a message.
     */
    private static String survive(String namesrv, String topic, String group) throws Exception {
        DefaultMQProducer producer = producer(namesrv);
        int queues = producer.fetchPublishMessageQueues(send(producer, topic)).size();
        long[] last = new long[queues];
        consumer(namesrv, topic, group, (batch, context) -> {
            synchronized (last) {
                last[context.getMessageQueue().getQueueId()] = System.nanoTime();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Thread sending = new Thread(() -> {
            try {
                while (true) {
                    send(producer, topic);
                    LockSupport.parkNanos(2_500_000);
                }
            } catch (Exception e) {
                e.printStackTrace();
                System.exit(1);
            }
        });
        sending.setDaemon(true);
        sending.start();
        await(last, queues, 0);
        System.out.println("alone");
        while (since(last, System.nanoTime() - 1_000_000_000L) == queues) {
            LockSupport.parkNanos(10_000_000);
        }
        System.out.println("shared");
        System.in.read();
        long killed = System.nanoTime();
        await(last, queues, killed);
        return String.format("{\"ms\": %.3f}", (System.nanoTime() - killed) / 1e6);
    }

    private static void await(long[] last, int queues, long from) {
        while (since(last, from + 1) < queues) {
            LockSupport.parkNanos(200_000);
        }
    }

    private static int since(long[] last, long from) {
        synchronized (last) {
            return (int) Arrays.stream(last).filter(at -> at >= from).count();
        }
    }

    private static String send(DefaultMQProducer producer, String topic) throws Exception {
        producer.send(new Message(topic, "TagA", new byte[128]));
        return topic;
    }
}
