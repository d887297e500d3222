package pocketmq.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends COUNT messages with tags TagA, TagB, TagC in turn, each acknowledged.
 *
 * <p>Prints one line {@code QUEUE broker id count first-offset last-offset} for each queue, then
 * {@code SENT n}. Options: {@code --first} index of the first message (0), {@code --size} least
 * body size in bytes (0), {@code --kind} usual, bare (neither tag nor key) or rich (several keys, user
 * properties, text beyond ASCII), {@code --threads} (4), {@code --batch} messages in one send (1),
 * {@code --delay} level (0: none), {@code --shards} (0: none; else messages with the same
 * index modulo this go to one queue, in order, from one thread), {@code --group}.
 */
public final class SendMessages {
    private record Range(long first, long last, int count) {
        Range with(long offset, int messages) {
            return new Range(
                Math.min(first, offset), Math.max(last, offset + messages - 1), count + messages);
        }
    }

    private final Map<MessageQueue, Range> queues = new TreeMap<>();

    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(args, 3, "SendMessages NAMESRV TOPIC COUNT");
        DefaultMQProducer producer = new DefaultMQProducer(
            arguments.option("group", "interop-producer"));
        producer.setNamesrvAddr(arguments.text(0));
        producer.setSendMsgTimeout(60_000);
        producer.setMqClientApiTimeout(60_000);
        if (arguments.option("tls", 0) > 0) {
            producer.setUseTLS(true);
        }
        producer.start();
        try {
            new SendMessages().run(producer, arguments);
        } finally {
            producer.shutdown();
        }
        System.exit(0);
    }

    private void run(DefaultMQProducer producer, Arguments arguments) throws Exception {
        int count = arguments.number(2);
        int first = arguments.option("first", 0);
        int batch = arguments.option("batch", 1);
        int shards = arguments.option("shards", 0);
        int threads = shards > 0 ? 1 : arguments.option("threads", 4);

        // Threads that all ask for a new topic's route may learn one that knows it on the first
        // broker only, because one of them has just created it there: one message goes before.
        int alone = threads > 1 ? Math.min(batch, count) : 0;
        int sent = sendRange(producer, arguments, first, first + alone);
        int start = first + alone;
        int rest = count - alone;
        List<Callable<Integer>> work = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            int from = start + rest * thread / threads;
            int to = start + rest * (thread + 1) / threads;
            work.add(() -> sendRange(producer, arguments, from, to));
        }
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        for (Future<Integer> part : executor.invokeAll(work)) {
            sent += part.get();
        }
        executor.shutdown();
        queues.forEach((queue, range) -> System.out.printf(
            "QUEUE %s %d %d %d %d%n", queue.getBrokerName(), queue.getQueueId(), range.count,
            range.first, range.last));
        System.out.printf("SENT %d%n", sent);
    }

    private int sendRange(DefaultMQProducer producer, Arguments arguments, int from, int to)
            throws Exception {
        int batch = arguments.option("batch", 1);
        int shards = arguments.option("shards", 0);
        for (int at = from; at < to; at += batch) {
            List<Message> messages = new ArrayList<>();
            for (int index = at; index < Math.min(at + batch, to); index++) {
                messages.add(message(arguments, index));
            }
            note(send(producer, messages, shards, at), messages.size());
        }
        return to - from;
    }

    private static Message message(Arguments arguments, int index) {
        String topic = arguments.text(1);
        Message message = Contents.message(topic, index, arguments.option("size", 0));
        switch (arguments.option("kind", "usual")) {
            case "bare" -> message = new Message(topic, message.getBody());
            case "rich" -> {
                message.setKeys(List.of(Contents.key(index), "gr\u00fc\u00dfe-" + index, "third"));
                message.putUserProperty("user", "\u4f60\u597d " + index);
                message.putUserProperty("spaces", " in  it ");
                message.setFlag(index);
            }
            default -> { }
        }
        int delay = arguments.option("delay", 0);
        if (delay > 0) {
            message.setDelayTimeLevel(delay);
        }
        return message;
    }

    private static SendResult send(
            DefaultMQProducer producer, List<Message> messages, int shards, int index)
            throws Exception {
        if (messages.size() > 1) {
            return producer.send(messages);
        }
        if (shards > 0) {
            return producer.send(
                messages.get(0),
                (queues, message, shard) -> queues.get((Integer) shard % queues.size()),
                index % shards);
        }
        return producer.send(messages.get(0));
    }

    private synchronized void note(SendResult result, int messages) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException("not stored as asked: " + result);
        }
        long offset = result.getQueueOffset();
        queues.merge(
            result.getMessageQueue(), new Range(offset, offset + messages - 1, messages),
            (known, added) -> known.with(offset, messages));
    }
}
