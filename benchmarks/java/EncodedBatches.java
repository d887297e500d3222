import java.io.EOFException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageBatch;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.header.SendMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.SendMessageRequestHeaderV2;

/**
 * Batches of 32 messages that were encoded once before, sent over plain sockets: a client that
 * takes so little that the broker is the limit. It is not RocketMQ's client; see Load for that.
 *
 * <pre>
 * encoded NAMESRV TOPIC BYTES MESSAGES CONNECTIONS WINDOW
 * </pre>
 *
 * RocketMQ's own classes make the batches and the requests, as its producer does, and read the
 * answers. An ordinary producer makes the topic and finds its queues and their broker. On each
 * connection WINDOW requests are in flight. Each of them has a number (its opaque) of its own and
 * one frame for each queue of the topic, which are sent in turn; a number is used again when its
 * answer has come. So unique keys come again and again, and a broker's index touches fewer pages
 * than with a producer's. A fifth of the messages warms up and does not count. What is not answered
 * with SUCCESS counts as refused. The last line is JSON: `seconds` until the last answer, `readable_s`
 * until the queues' maximum offsets show that all stored messages can be consumed.
 */
public final class EncodedBatches {
    private static final int BATCH = 32;
    private static final long LIMIT_NS = 60_000_000_000L;

    private final DefaultMQProducer producer;
    private final List<MessageQueue> queues;
    private final String[] address;
    private final int window;
    private final byte[][][][] frames;  // by connection, number, queue

    private EncodedBatches(DefaultMQProducer producer, String topic, int bytes, int connections,
        int window) throws Exception {
        this.producer = producer;
        this.window = window;
        producer.send(new Message(topic, "TagA", new byte[1]));
        queues = producer.fetchPublishMessageQueues(topic);
        address = producer.getDefaultMQProducerImpl().getMqClientFactory()
            .findBrokerAddressInPublish(queues.get(0).getBrokerName()).split(":");
        frames = new byte[connections][window][queues.size()][];
        for (byte[][][] ofConnection : frames) {
            for (int number = 0; number < window; number++) {
                for (int queue = 0; queue < queues.size(); queue++) {
                    ofConnection[number][queue] = frame(queues.get(queue), bytes, number);
                }
            }
        }
    }

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
        int[] numbers = Arrays.stream(args, 3, 7).mapToInt(Integer::parseInt).toArray();
        DefaultMQProducer producer = new DefaultMQProducer("encoded");
        producer.setNamesrvAddr(args[1]);
        producer.setInstanceName("encoded-" + System.nanoTime());
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        EncodedBatches batches =
            new EncodedBatches(producer, args[2], numbers[0], numbers[2], numbers[3]);
        batches.run(numbers[1] / 5);
        System.out.println(batches.run(numbers[1]));
    }

    /** One request as `MQClientAPIImpl.sendMessage` makes it of what `DefaultMQProducer.batch` does. */
    private byte[] frame(MessageQueue queue, int bytes, int opaque) {
        List<Message> messages = new ArrayList<>(BATCH);
        for (int n = 0; n < BATCH; n++) {
            messages.add(new Message(queue.getTopic(), "TagA", new byte[bytes]));
        }
        MessageBatch batch = MessageBatch.generateFromList(messages);
        messages.forEach(MessageClientIDSetter::setUniqID);
        MessageClientIDSetter.setUniqID(batch);
        SendMessageRequestHeader header = new SendMessageRequestHeader();
        header.setProducerGroup(producer.getProducerGroup());
        header.setTopic(queue.getTopic());
        header.setDefaultTopic(producer.getCreateTopicKey());
        header.setDefaultTopicQueueNums(producer.getDefaultTopicQueueNums());
        header.setQueueId(queue.getQueueId());
        header.setSysFlag(0);
        header.setBornTimestamp(System.currentTimeMillis());
        header.setFlag(batch.getFlag());
        header.setProperties(MessageDecoder.messageProperties2String(batch.getProperties()));
        header.setReconsumeTimes(0);
        header.setUnitMode(false);
        header.setBatch(true);
        header.setBrokerName(queue.getBrokerName());
        RemotingCommand request = RemotingCommand.createRequestCommand(
            RequestCode.SEND_BATCH_MESSAGE,
            SendMessageRequestHeaderV2.createSendMessageRequestHeaderV2(header));
        request.setBody(batch.encode());
        request.setOpaque(opaque);
        return request.encode().array();
    }

    /** Send so many messages, the connections at once, and wait until all can be consumed. */
    private String run(int messages) throws Exception {
        int each = messages / BATCH / frames.length;
        ExecutorService threads = Executors.newFixedThreadPool(frames.length);
        List<Callable<Integer>> connections = new ArrayList<>();
        for (byte[][][] own : frames) {
            connections.add(() -> new Connection(own).send(each));
        }
        long stored = maxOffsets();
        long began = System.nanoTime();
        List<Future<Integer>> done = threads.invokeAll(connections);
        double seconds = (System.nanoTime() - began) / 1e9;
        threads.shutdown();
        int refused = 0;
        for (Future<Integer> connection : done) {
            refused += connection.get() * BATCH;
        }
        int sent = each * frames.length * BATCH;
        long limit = System.nanoTime() + LIMIT_NS;
        while (maxOffsets() < stored + sent - refused) {
            if (System.nanoTime() > limit) {
                throw new IllegalStateException(
                    maxOffsets() - stored + " of " + (sent - refused) + " messages can be consumed");
            }
            LockSupport.parkNanos(1_000_000);
        }
        return String.format(
            "{\"messages\": %d, \"seconds\": %.6f, \"readable_s\": %.6f, \"refused\": %d}", sent,
            seconds, (System.nanoTime() - began) / 1e9, refused);
    }

    private long maxOffsets() throws Exception {
        long sum = 0;
        for (MessageQueue queue : queues) {
            sum += producer.maxOffset(queue);
        }
        return sum;
    }

    /** One socket, whose requests are written as answers come. */
    private final class Connection {
        private final byte[][][] own;
        private final int[] turns = new int[window];
        private final boolean[] inFlight = new boolean[window];
        private final ByteBuffer sending;
        private final byte[] received = new byte[1 << 20];
        private int left;
        private int refused;

        Connection(byte[][][] own) {
            this.own = own;
            int longest = Arrays.stream(own).flatMap(Arrays::stream).mapToInt(f -> f.length).max()
                .orElseThrow();
            sending = ByteBuffer.allocate(window * longest);
        }

        /** Returns how many of the requests were refused. */
        int send(int requests) throws Exception {
            left = requests;
            int open = requests;
            try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
                socket.setTcpNoDelay(true);
                socket.setSoTimeout((int) (LIMIT_NS / 1_000_000));
                InputStream in = socket.getInputStream();
                OutputStream out = socket.getOutputStream();
                for (int number = 0; number < window; number++) {
                    next(number);
                }
                flush(out);
                int end = 0;
                while (open > 0) {
                    int read = in.read(received, end, received.length - end);
                    if (read < 0) {
                        throw new EOFException("the broker closed a connection");
                    }
                    end += read;
                    int at = 0;
                    while (end - at >= 4) {
                        int length = ByteBuffer.wrap(received, at, 4).getInt();
                        if (end - at - 4 < length) {
                            break;
                        }
                        answered(RemotingCommand.decode(ByteBuffer.wrap(received, at + 4, length)));
                        at += 4 + length;
                        open--;
                    }
                    System.arraycopy(received, at, received, 0, end - at);
                    end -= at;
                    flush(out);
                }
            }
            return refused;
        }

        private void answered(RemotingCommand answer) {
            int number = answer.getOpaque();
            if (!answer.isResponseType() || number < 0 || number >= window || !inFlight[number]) {
                throw new IllegalStateException("not an answer to a request: " + answer);
            }
            inFlight[number] = false;
            if (answer.getCode() != ResponseCode.SUCCESS) {
                refused++;
            }
            next(number);
        }

        private void next(int number) {
            if (left > 0) {
                left--;
                inFlight[number] = true;
                sending.put(own[number][turns[number]++ % own[number].length]);
            }
        }

        private void flush(OutputStream out) throws Exception {
            out.write(sending.array(), 0, sending.position());
            sending.clear();
        }
    }
}
