package pocketmq.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * Judges messages by SQL92 expressions with RocketMQ's own filter. The file holds one JSON object:
 * {@code {"messages": [{name: value}], "expressions": [text]}}. Prints one line for each expression:
 * {@code refused}, or a digit for each message, 1 where it matches.
 */
public final class JudgeSql {
    public static void main(String[] args) throws Exception {
        JSONObject cases = JSON.parseObject(Files.readString(Path.of(args[0])));
        List<Map<String, String>> messages = new ArrayList<>();
        for (Object each : cases.getJSONArray("messages")) {
            Map<String, String> message = new java.util.HashMap<>();
            ((JSONObject) each).forEach((name, value) -> message.put(name, (String) value));
            messages.add(message);
        }
        StringBuilder lines = new StringBuilder();
        for (Object expression : cases.getJSONArray("expressions")) {
            lines.append(judge((String) expression, messages)).append('\n');
        }
        System.out.print(lines);
        System.exit(0);
    }

    private static String judge(String text, List<Map<String, String>> messages) {
        Expression compiled;
        try {
            compiled = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (Throwable refused) {
            return "refused";
        }
        StringBuilder digits = new StringBuilder();
        for (Map<String, String> message : messages) {
            digits.append(matches(compiled, message) ? '1' : '0');
        }
        return digits.toString();
    }

    /** As the broker does: what is thrown, and what is not true, is no match. */
    private static boolean matches(Expression compiled, Map<String, String> message) {
        try {
            return Boolean.TRUE.equals(compiled.evaluate(new Context(message)));
        } catch (Throwable thrown) {
            return false;
        }
    }

    private record Context(Map<String, String> message) implements EvaluationContext {
        @Override
        public Object get(String name) {
            return message.get(name);
        }

        @Override
        public Map<String, Object> keyValues() {
            return Map.copyOf(message);
        }
    }
}
