import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Clients with keys: {@code Signed NAMESRV step:accessKey:secretKey:topic:group ...}.
 *
 * <p>Steps: {@code send}; {@code alter}, which changes a header field after it was signed; {@code body},
 * the same with the body; {@code read}, which waits for one message. Prints {@code STEP send SENT},
 * {@code STEP read READ}, or {@code STEP send REFUSED code text}. Compiled against 4.9 to the newest.
 */
public final class Signed {
    private static final int SEND = 310;
    private static final int READ_S = 120;

    private static int number;

    public static void main(String[] args) {
        try {
            endWithStandardInput();
            for (int i = 1; i < args.length; i++) {
                String[] words = args[i].split(":");
                System.out.println("STEP " + words[0] + " " + step(args[0], words));
            }
        } catch (Throwable e) {
            // An error that nobody catches ends this thread alone: those of the clients are no
            // daemons, and the program would never end.
            e.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private static String step(String namesrv, String[] words) throws Exception {
        RPCHook hook = new AclClientRPCHook(new SessionCredentials(words[1], words[2]));
        String instance = "signed-" + ++number; // clients of one name share the first one's hook
        if (words[0].equals("read")) {
            return read(namesrv, hook, instance, words[3], words[4]);
        }
        DefaultMQProducer producer =
            new DefaultMQProducer("signed-producers", new Changing(words[0], hook));
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(instance);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(60_000);
        producer.start();
        try {
            Message message = new Message(words[3], "hello".getBytes(StandardCharsets.UTF_8));
            producer.send(message);
            return "SENT";
        } catch (Exception e) {
            return "REFUSED " + refusal(e);
        } finally {
            producer.shutdown();
        }
    }

    private static String read(String namesrv, RPCHook hook, String instance, String topic,
        String group) throws Exception {
        CountDownLatch read = new CountDownLatch(1);
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            read.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            return read.await(READ_S, TimeUnit.SECONDS) ? "READ" : "NOTHING";
        } finally {
            consumer.shutdown();
        }
    }

    /** What the broker said. A producer wraps it where the code is one that it tries again after. */
    private static String refusal(Exception error) throws Exception {
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (each instanceof MQBrokerException) {
                MQBrokerException refused = (MQBrokerException) each;
                return refused.getResponseCode() + " " + refused.getErrorMessage();
            }
        }
        throw error;
    }

    private static void endWithStandardInput() {
        Thread guard = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException e) {
                System.err.println("standard input failed: " + e);
            }
            System.exit(0);
        }, "guard");
        guard.setDaemon(true);
        guard.start();
    }

    /** Signs a send, and then changes what was signed. */
    private static final class Changing implements RPCHook {
        private final String step;
        private final RPCHook signing;

        Changing(String step, RPCHook signing) {
            this.step = step;
            this.signing = signing;
        }

        @Override
        public void doBeforeRequest(String address, RemotingCommand request) {
            signing.doBeforeRequest(address, request);
            if (request.getCode() != SEND) {
                return;
            }
            if (step.equals("body")) {
                request.setBody("other".getBytes(StandardCharsets.UTF_8));
            } else if (step.equals("alter")) {
                alter(request.readCustomHeader());
            }
        }

        /** Its class is in another package before 5.0. */
        private static void alter(Object header) {
            try {
                Method properties = header.getClass().getMethod("setI", String.class);
                properties.invoke(header, "KEYS\u0001other\u0002");
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
            signing.doAfterResponse(address, request, response);
        }
    }
}
