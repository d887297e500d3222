package pocketmq.interop;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends COUNT transactional messages: by index modulo 3 the local part commits (0), rolls back (1)
 * or stays unknown (2) until the broker asks, when it commits.
 *
 * <p>Prints {@code SENT n committed c rolledback r unknown u checked k}. Option
 * {@code --checks-s}: how long to wait for the broker's questions (0: leave them unanswered).
 */
public final class SendTransactions {
    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(args, 3, "SendTransactions NAMESRV TOPIC COUNT");
        int count = arguments.number(2);
        int unknown = count / 3;
        Set<String> checked = ConcurrentHashMap.newKeySet();
        TransactionMQProducer producer = new TransactionMQProducer(
            arguments.option("group", "interop-transactions"));
        producer.setNamesrvAddr(arguments.text(0));
        producer.setSendMsgTimeout(60_000);
        producer.setMqClientApiTimeout(60_000);
        producer.setTransactionListener(listener(checked));
        producer.start();
        try {
            for (int index = 0; index < count; index++) {
                producer.sendMessageInTransaction(
                    Contents.message(arguments.text(1), index, 0), index);
            }
            long deadline = System.nanoTime() + arguments.option("checks-s", 0) * 1_000_000_000L;
            while (checked.size() < unknown && System.nanoTime() < deadline) {
                Thread.sleep(50);
            }
            Thread.sleep(300); // the last answer to a check is one-way
        } finally {
            producer.shutdown();
        }
        System.out.printf(
            "SENT %d committed %d rolledback %d unknown %d checked %d%n",
            count, (count + 2) / 3, (count + 1) / 3, unknown, checked.size());
        System.exit(0);
    }

    private static TransactionListener listener(Set<String> checked) {
        Map<String, LocalTransactionState> decided = new ConcurrentHashMap<>();
        return new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object index) {
                LocalTransactionState state = switch ((Integer) index % 3) {
                    case 0 -> LocalTransactionState.COMMIT_MESSAGE;
                    case 1 -> LocalTransactionState.ROLLBACK_MESSAGE;
                    default -> LocalTransactionState.UNKNOW;
                };
                decided.put(message.getKeys(), state);
                return state;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                // A broker also asks for what is decided if the decision was long on its way.
                LocalTransactionState state = decided.get(message.getKeys());
                if (state == LocalTransactionState.COMMIT_MESSAGE
                        || state == LocalTransactionState.ROLLBACK_MESSAGE) {
                    return state;
                }
                checked.add(message.getKeys());
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        };
    }
}
