package pocketmq.interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Runs RocketMQ's {@code mqadmin} as often as it is told over a connection to PORT, in one process:
 * a line has the milliseconds it may take, then its arguments in Base64, separated by tabs. The
 * answer is the exit status, or {@code endless}, a tab, and in Base64 what was printed.
 */
public final class Mqadmin {
    /** Not on the class path of those of our programs that are clients only. */
    private static final String STARTUP = "org.apache.rocketmq.tools.command.MQAdminStartup";
    private static final long GRACE_MS = 5_000;
    private static final long PAUSE_MS = 20;

    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(args, 1, "Mqadmin PORT");
        AtomicReference<Thread> running = new AtomicReference<>();
        AtomicReference<String> status = new AtomicReference<>();
        System.setSecurityManager(new ExitTrap(running, status));
        try (Socket socket = new Socket("127.0.0.1", arguments.number(0))) {
            BufferedReader in = new BufferedReader(
                new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            PrintWriter out = new PrintWriter(socket.getOutputStream(), true, StandardCharsets.UTF_8);
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split("\t");
                String[] command = Arrays.stream(words).skip(1)
                    .map(word -> new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8))
                    .toArray(String[]::new);
                byte[] printed = run(command, Long.parseLong(words[0]), running, status);
                out.println(status.get() + "\t" + Base64.getEncoder().encodeToString(printed));
            }
        } catch (IOException e) {
            System.err.println("nobody tells us what to do any more: " + e);
        }
        System.exit(0);
    }

    @SuppressWarnings({"deprecation", "removal"})
    private static byte[] run(String[] command, long mostMs, AtomicReference<Thread> running,
        AtomicReference<String> status) throws InterruptedException {
        System.clearProperty(MixAll.NAMESRV_ADDR_PROPERTY);
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream shown = new PrintStream(printed, true, StandardCharsets.UTF_8);
        PrintStream out = System.out;
        PrintStream err = System.err;
        status.set("0");
        Thread thread = new Thread(() -> {
            try {
                start(command);
            } catch (Exited e) {
                // the status is noted
            } catch (ThreadDeath e) {
                // it had no end
            } catch (Throwable e) {
                e.printStackTrace();
                status.set("1");
            }
        }, "mqadmin");
        System.setOut(shown);
        System.setErr(shown);
        try {
            running.set(thread);
            thread.start();
            long end = System.nanoTime() + mostMs * 1_000_000;
            while (thread.isAlive() && System.nanoTime() < end) {
                thread.join(PAUSE_MS);
                hurry(thread);
            }
            if (thread.isAlive()) {
                byte[] soFar = printed.toByteArray();
                thread.interrupt();
                thread.join(GRACE_MS);
                if (thread.isAlive()) {
                    thread.stop();
                    thread.join(GRACE_MS);
                }
                status.set("endless");
                return soFar;
            }
            return printed.toByteArray();
        } finally {
            running.set(null);
            System.setOut(out);
            System.setErr(err);
        }
    }

    /**
     * A client that stops waits for a thread that looks only every three seconds whether it is to
     * stop. Every second command would wait for it.
     */
    private static void hurry(Thread thread) {
        boolean stops = Arrays.stream(thread.getStackTrace())
            .anyMatch(frame -> frame.getClassName().endsWith(".ServiceThread"));
        if (stops) {
            Thread[] all = new Thread[Thread.activeCount() + 64];
            int count = Thread.enumerate(all);
            for (int i = 0; i < count; i++) {
                if (all[i].getName().equals("NettyEventExecutor")) {
                    all[i].interrupt();
                }
            }
        }
    }

    private static void start(String[] command) throws Throwable {
        Class<?> startup = Class.forName(STARTUP);
        Field known = startup.getDeclaredField("SUB_COMMANDS");
        known.setAccessible(true);
        ((List<?>) known.get(null)).clear(); // some keep their client: each run has new ones
        Method main = startup.getMethod("main0", String[].class, RPCHook.class);
        try {
            main.invoke(null, command, null);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    /** A command wants to end the process; not an exception, since commands catch those. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1;
    }

    /** Notes the exit status of a command, and ends its thread in place of the process. */
    @SuppressWarnings("removal")
    private static final class ExitTrap extends SecurityManager {
        private final AtomicReference<Thread> running;
        private final AtomicReference<String> status;

        ExitTrap(AtomicReference<Thread> running, AtomicReference<String> status) {
            this.running = running;
            this.status = status;
        }

        @Override
        public void checkExit(int exitStatus) {
            if (Thread.currentThread() == running.get()) {
                status.set(Integer.toString(exitStatus));
                throw new Exited();
            }
        }

        @Override
        public void checkPermission(Permission permission) {
            // anything else is allowed
        }
    }
}
