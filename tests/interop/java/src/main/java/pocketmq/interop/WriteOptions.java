package pocketmq.interop;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import org.apache.rocketmq.common.MixAll;

/**
 * Prints what RocketMQ's configuration classes, named on the command line, declare: one JSON object
 * a line with the class, the option, its type, its default as {@code getBrokerConfig} would print
 * it, and for numbers {@code bounds}: what is read after each of some extreme values was set.
 * A getter or setter that moves values into a range shows there.
 */
public final class WriteOptions {
    private static final double[] PROBES = {-2_000_000_000, -1, 0, 1, 2_000_000_000};

    public static void main(String[] args) throws Exception {
        for (String name : args) {
            Class<?> declared = Class.forName(name);
            Object made = declared.getDeclaredConstructor().newInstance();
            Properties shown = MixAll.object2Properties(made);
            for (Class<?> each = declared; each != Object.class; each = each.getSuperclass()) {
                for (Field field : each.getDeclaredFields()) {
                    if (Modifier.isStatic(field.getModifiers())) {
                        continue;
                    }
                    field.setAccessible(true);
                    Map<String, Object> line = new TreeMap<>();
                    line.put("class", name);
                    line.put("option", field.getName());
                    line.put("type", field.getType().getSimpleName());
                    line.put("default", shown.getProperty(field.getName()));
                    line.put("bounds", moved(made, field));
                    if (field.getType().isEnum()) {
                        line.put("words", Arrays.toString(field.getType().getEnumConstants()));
                    }
                    System.out.println(JSON.toJSONString(line, JSONWriter.Feature.WriteNulls));
                }
            }
        }
    }

    /** Value that was set to value that is read then, where they differ. */
    private static Map<String, String> moved(Object made, Field field) throws Exception {
        Map<String, String> found = new TreeMap<>();
        String end = field.getName().substring(0, 1).toUpperCase() + field.getName().substring(1);
        Class<?> type = field.getType();
        Method getter;
        Method setter;
        try {
            getter = made.getClass().getMethod("get" + end);
            setter = made.getClass().getMethod("set" + end, type);
        } catch (NoSuchMethodException e) {
            return found;
        }
        for (double probe : PROBES) {
            Object value;
            if (type == int.class) {
                value = (int) probe;
            } else if (type == long.class) {
                value = (long) probe;
            } else {
                return found;
            }
            Object kept = field.get(made);
            try {
                setter.invoke(made, value);
                Object read = getter.invoke(made);
                if (!value.equals(read)) {
                    found.put(value.toString(), read.toString());
                }
            } catch (InvocationTargetException e) {
                found.put(value.toString(), e.getCause().toString());
            }
            field.set(made, kept);
        }
        return found;
    }
}
