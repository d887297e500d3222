package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * One member of a group that pops: {@code PopMember namesrv topic group idleMillis}.
 *
 * <p>Prints {@code GOT body reconsumeTimes} for each message; ends once it has had some, and then
 * none for {@code idleMillis}.
 */
public final class PopMember {
    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(args, 4, "PopMember namesrv topic group idleMillis");
        long idle = arguments.number(3);
        AtomicInteger received = new AtomicInteger();
        AtomicLong last = new AtomicLong();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.text(2));
        consumer.setNamesrvAddr(arguments.text(0));
        consumer.setMqClientApiTimeout(60_000);
        consumer.setInstanceName("java");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setClientRebalance(false);
        consumer.setPopBatchNums(4);
        consumer.subscribe(arguments.text(1), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                synchronized (PopMember.class) {
                    System.out.println("GOT " + body + " " + message.getReconsumeTimes());
                }
                received.incrementAndGet();
                last.set(System.currentTimeMillis());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        while (received.get() == 0 || System.currentTimeMillis() - last.get() < idle) {
            Thread.sleep(50);
        }
        consumer.shutdown();
        System.exit(0);
    }
}
