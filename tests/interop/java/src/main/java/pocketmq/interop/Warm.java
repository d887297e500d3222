package pocketmq.interop;

import java.io.File;
import java.io.IOException;
import java.util.List;
import java.util.jar.JarFile;

/**
 * Loads the classes that RocketMQ's clients, tools and servers begin with, and ends: what a JVM that
 * runs it with {@code -XX:ArchiveClassesAtExit} keeps for others to start from.
 */
public final class Warm {
    private static final List<String> BEGINNINGS = List.of(
        "pocketmq/", "org/apache/rocketmq/", "io/netty/bootstrap/", "io/netty/buffer/",
        "io/netty/channel/", "io/netty/handler/timeout/", "io/netty/util/");

    private Warm() {
    }

    public static void main(String[] args) throws IOException {
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            try (JarFile jar = new JarFile(path)) {
                jar.stream().map(entry -> entry.getName()).forEach(Warm::load);
            }
        }
    }

    private static void load(String entry) {
        if (!entry.endsWith(".class") || BEGINNINGS.stream().noneMatch(entry::startsWith)) {
            return;
        }
        String name = entry.substring(0, entry.length() - ".class".length()).replace('/', '.');
        try {
            Class.forName(name, false, Warm.class.getClassLoader());
        } catch (ClassNotFoundException | LinkageError e) {
            // It needs a library that is not there, so nobody uses it.
        }
    }
}
