package pocketmq.interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Positional arguments, and options of the form {@code --name value}. */
final class Arguments {
    private final String usage;
    private final List<String> positional = new ArrayList<>();
    private final Map<String, String> options = new HashMap<>();

    Arguments(String[] args, int expected, String usage) {
        this.usage = usage;
        for (int i = 0; i < args.length; i++) {
            if (!args[i].startsWith("--")) {
                positional.add(args[i]);
            } else if (i + 1 < args.length) {
                options.put(args[i].substring(2), args[++i]);
            } else {
                throw fail("option " + args[i] + " needs a value");
            }
        }
        if (positional.size() != expected) {
            throw fail("expected " + expected + " arguments, got " + positional.size());
        }
    }

    String text(int index) {
        return positional.get(index);
    }

    int number(int index) {
        return Integer.parseInt(positional.get(index));
    }

    String option(String name, String fallback) {
        return options.getOrDefault(name, fallback);
    }

    int option(String name, int fallback) {
        return Integer.parseInt(options.getOrDefault(name, Integer.toString(fallback)));
    }

    private IllegalArgumentException fail(String reason) {
        return new IllegalArgumentException(reason + "; usage: " + usage);
    }
}
