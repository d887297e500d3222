package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

import org.apache.rocketmq.common.message.Message;

/**
 * What the i-th message of a topic holds. Producer and consumer both compute it, so that a
 * consumer can tell a damaged message from a right one.
 */
final class Contents {
    private static final String[] TAGS = {"TagA", "TagB", "TagC"};

    private Contents() {
    }

    static String tag(int index) {
        return TAGS[index % TAGS.length];
    }

    static String key(int index) {
        return String.format("key-%08d", index);
    }

    static int indexOf(String key) {
        return Integer.parseInt(key.substring("key-".length()));
    }

    /** ASCII text that begins with topic and index, padded to {@code size} bytes. */
    static byte[] body(String topic, int index, int size) {
        byte[] head = (topic + " message " + index + " ").getBytes(StandardCharsets.UTF_8);
        byte[] body = Arrays.copyOf(head, Math.max(size, head.length));
        for (int at = head.length; at < body.length; at++) {
            body[at] = (byte) ('a' + (index + at) % 26);
        }
        return body;
    }

    static Message message(String topic, int index, int size) {
        return new Message(topic, tag(index), key(index), body(topic, index, size));
    }

    /** Whether a message that was sent to {@code topic} arrived as it was made. */
    static boolean intact(String topic, Message message) {
        int index = indexOf(message.getKeys());
        return tag(index).equals(message.getTags())
            && Arrays.equals(body(topic, index, message.getBody().length), message.getBody());
    }
}
