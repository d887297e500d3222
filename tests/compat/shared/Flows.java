package shared;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * What a program does with a cluster, told as rows: {@code ROW name ok} or {@code ROW name failed reason}.
 *
 * <p>The flows run at once, each with its own topics and groups, since most of them wait.
 */
public final class Flows {
    /** Seconds until what should come counts as lost. */
    public static final int WAIT_S = 60;

    private final Map<String, Flow> flows = new LinkedHashMap<>();

    /** One thing that users do; an exception says why it did not work. */
    public interface Flow {
        void run() throws Exception;
    }

    public Flows with(String name, Flow flow) {
        flows.put(name, flow);
        return this;
    }

    /** Runs all flows and prints their rows in the order in which they were named. */
    public void run() throws InterruptedException {
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<?>> ends = new ArrayList<>();
        for (Flow flow : flows.values()) {
            ends.add(threads.submit(() -> {
                flow.run();
                return null;
            }));
        }
        int number = 0;
        for (String name : flows.keySet()) {
            try {
                ends.get(number++).get();
                System.out.println("ROW " + name + " ok");
            } catch (ExecutionException e) {
                e.getCause().printStackTrace();
                String reason = String.valueOf(e.getCause()).replace('\n', ' ');
                System.out.println("ROW " + name + " failed " + reason);
            }
        }
        threads.shutdown();
    }

    public static <T> T next(BlockingQueue<T> received, String what) throws InterruptedException {
        T found = received.poll(WAIT_S, TimeUnit.SECONDS);
        expect(found != null, "did not come: " + what);
        return found;
    }

    public static void expect(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }

    public static void same(Object expected, Object found) {
        expect(expected.equals(found), "expected " + expected + ", found " + found);
    }

    /** A program whose starter is gone ends too. */
    public static void endWithStandardInput() {
        Thread guard = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (IOException e) {
                System.err.println("standard input failed: " + e);
            }
            Runtime.getRuntime().halt(2);
        });
        guard.setDaemon(true);
        guard.start();
    }
}
