package pocketmq.interop;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs another main class. The process ends when standard input does, so that it never outlives
 * the test that started it, and with status 1 when that main method throws, whatever threads
 * are still running.
 */
public final class Guarded {
    public static void main(String[] args) throws Exception {
        Thread guard = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (IOException e) {
                System.err.println("standard input failed: " + e);
            }
            System.exit(0);
        }, "guard");
        guard.setDaemon(true);
        guard.start();
        try {
            Class.forName(args[0])
                .getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
        } catch (InvocationTargetException e) {
            e.getCause().printStackTrace();
            System.exit(1);
        }
    }
}
