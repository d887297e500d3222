import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * RocketMQ 5's Java SDK as a load: the same program for PocketMQ's proxy and for RocketMQ's.
 *
 * <pre>
 * send    ENDPOINTS TOPIC BYTES MESSAGES WINDOW    so many messages in flight
 * receive ENDPOINTS TOPIC GROUP MESSAGES RECEIVERS receives of 32, each message acknowledged
 * </pre>
 *
 * Sends are warmed up by a fifth of the messages, which do not count. The last line is JSON.
 */
public final class GrpcLoad {
    private static final ClientServiceProvider SDK = ClientServiceProvider.loadService();

    public static void main(String[] args) {
        try {
            ClientConfiguration where = ClientConfiguration.newBuilder().setEndpoints(args[1])
                    .enableSsl(false).setRequestTimeout(Duration.ofSeconds(30)).build();
            int messages = Integer.parseInt(args[4]);
            int parallel = Integer.parseInt(args[5]);
            if (args[0].equals("send")) {
                send(where, args[2], Integer.parseInt(args[3]), messages, parallel);
            } else {
                receive(where, args[2], args[3], messages, parallel);
            }
            System.exit(0);
        } catch (Exception e) {  // threads of the SDK would go on without an end
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static void send(
            ClientConfiguration where, String topic, int bytes, int messages, int window)
            throws Exception {
        Producer producer = SDK.newProducerBuilder()
                .setClientConfiguration(where).setTopics(topic).build();
        AtomicInteger refused = new AtomicInteger();
        sendSome(producer, topic, bytes, messages / 5, window, new AtomicInteger());
        long began = System.nanoTime();
        sendSome(producer, topic, bytes, messages, window, refused);
        tell(messages, began, refused.get());
    }

    private static void sendSome(
            Producer producer, String topic, int bytes, int messages, int window,
            AtomicInteger refused) throws InterruptedException {
        byte[] body = new byte[bytes];
        Semaphore places = new Semaphore(window);
        for (int i = 0; i < messages; i++) {
            places.acquire();
            producer.sendAsync(SDK.newMessageBuilder().setTopic(topic).setBody(body).build())
                    .whenComplete((receipt, fault) -> {
                        if (fault != null) {
                            refused.incrementAndGet();
                        }
                        places.release();
                    });
        }
        places.acquire(window);
    }

    private static void receive(
            ClientConfiguration where, String topic, String group, int messages, int receivers)
            throws Exception {
        SimpleConsumer consumer = SDK.newSimpleConsumerBuilder().setClientConfiguration(where)
                .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).build();
        CountDownLatch left = new CountDownLatch(messages);
        AtomicInteger refused = new AtomicInteger();
        long began = System.nanoTime();
        for (int i = 0; i < receivers; i++) {
            Thread receiver = new Thread(() -> receiveAll(consumer, left, refused));
            receiver.setDaemon(true);
            receiver.start();
        }
        left.await();
        tell(messages, began, refused.get());
    }

    private static void receiveAll(
            SimpleConsumer consumer, CountDownLatch left, AtomicInteger refused) {
        while (left.getCount() > 0) {
            List<MessageView> found;
            try {
                found = consumer.receive(32, Duration.ofSeconds(60));
            } catch (ClientException e) {
                refused.incrementAndGet();
                continue;
            }
            for (MessageView each : found) {
                consumer.ackAsync(each).whenComplete((done, fault) -> {
                    if (fault == null) {
                        left.countDown();
                    } else {
                        refused.incrementAndGet();
                    }
                });
            }
        }
    }

    private static void tell(int messages, long began, int refused) {
        System.out.printf("{\"messages\": %d, \"seconds\": %.6f, \"refused\": %d}%n",
                messages, (System.nanoTime() - began) / 1e9, refused);
    }
}
