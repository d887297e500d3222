package pocketmq.interop;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.BitSet;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

import com.alibaba.fastjson2.JSON;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * Fills every field of RocketMQ's own header and body classes, named one a line in a file, and
 * prints what RocketMQ makes of each: one JSON object a line. A header becomes its fields and a
 * whole frame of the serialize type that is set; a body becomes its JSON.
 *
 * <p>Values follow from the field's name, so that every run prints the same.
 */
public final class WriteDeclared {
    private static final int DEPTH = 6;

    public static void main(String[] args) throws Exception {
        for (String name : Files.readAllLines(Path.of(args[0]))) {
            Object made = make(Class.forName(name), "root", 0);
            Map<String, Object> line = new TreeMap<>();
            line.put("class", name);
            if (made instanceof CommandCustomHeader header) {
                RemotingCommand command = RemotingCommand.createRequestCommand(7, header);
                command.setOpaque(9);
                line.put("frame", Base64.getEncoder().encodeToString(command.encode().array()));
                line.put("fields", new TreeMap<>(command.getExtFields()));
            } else {
                byte[] body = RemotingSerializable.encode(made);
                line.put("body", new String(body, StandardCharsets.UTF_8));
            }
            System.out.println(JSON.toJSONString(line));
        }
        System.exit(0);
    }

    private static Object make(Class<?> type, String name, int depth) throws Exception {
        int number = Math.floorMod(name.hashCode(), 1000) + 1;
        if (type == String.class || type == Object.class || type == CharSequence.class) {
            return name + "-" + number;
        } else if (type == int.class || type == Integer.class) {
            return number;
        } else if (type == long.class || type == Long.class) {
            return (1L << 40) + number;
        } else if (type == short.class || type == Short.class) {
            return (short) number;
        } else if (type == byte.class || type == Byte.class) {
            return (byte) (number % 100);
        } else if (type == boolean.class || type == Boolean.class) {
            return true;
        } else if (type == double.class || type == Double.class) {
            return number + 0.5;
        } else if (type == float.class || type == Float.class) {
            return number + 0.5f;
        } else if (type == AtomicLong.class) {
            return new AtomicLong((1L << 40) + number);
        } else if (type == AtomicInteger.class) {
            return new AtomicInteger(number);
        } else if (type == byte[].class) {
            return name.getBytes(StandardCharsets.UTF_8);
        } else if (type == BitSet.class) {
            BitSet bits = new BitSet();
            bits.set(0);
            bits.set(2);
            return bits;
        } else if (type.isEnum()) {
            Object[] constants = type.getEnumConstants();
            return constants[constants.length - 1];
        } else if (depth > DEPTH || Modifier.isAbstract(type.getModifiers())
                || !type.getName().startsWith("org.apache.rocketmq.")) {
            return null;
        }
        Constructor<?> constructor = shortest(type);
        constructor.setAccessible(true);
        List<Object> parameters = new ArrayList<>();
        for (Type parameter : constructor.getGenericParameterTypes()) {
            parameters.add(value(parameter, name, depth + 1));
        }
        Object made = constructor.newInstance(parameters.toArray());
        for (Class<?> level = type; level != Object.class; level = level.getSuperclass()) {
            for (Field field : level.getDeclaredFields()) {
                int modifiers = field.getModifiers();
                if (Modifier.isStatic(modifiers) || Modifier.isTransient(modifiers)) {
                    continue;
                }
                field.setAccessible(true);
                Object value = value(field.getGenericType(), field.getName(), depth + 1);
                if (value != null) {
                    field.set(made, value);
                }
            }
        }
        return made;
    }

    private static Constructor<?> shortest(Class<?> type) {
        return Arrays.stream(type.getDeclaredConstructors())
            .filter(each -> !List.of(each.getParameterTypes()).contains(type)) // one that copies
            .min(Comparator.comparingInt(Constructor::getParameterCount))
            .orElseThrow();
    }

    @SuppressWarnings("unchecked")
    private static Object value(Type type, String name, int depth) throws Exception {
        if (!(type instanceof ParameterizedType generic)) {
            return type instanceof Class<?> plain ? collection(plain, name, depth) : null;
        }
        Class<?> raw = (Class<?>) generic.getRawType();
        Type[] arguments = generic.getActualTypeArguments();
        if (Map.class.isAssignableFrom(raw)) {
            Map<Object, Object> map = (Map<Object, Object>) container(raw);
            map.put(value(arguments[0], name + "Key", depth), value(arguments[1], name, depth));
            return map;
        } else if (List.class.isAssignableFrom(raw)) {
            List<Object> list = new ArrayList<>();
            list.add(value(arguments[0], name, depth));
            return list;
        } else if (Set.class.isAssignableFrom(raw)) {
            Set<Object> set = (Set<Object>) container(raw);
            set.add(value(arguments[0], name, depth));
            return set;
        }
        return make(raw, name, depth);
    }

    private static Object collection(Class<?> plain, String name, int depth) throws Exception {
        if (plain == Properties.class) {
            Properties properties = new Properties();
            properties.put(name + "Key", name);
            return properties;
        }
        return make(plain, name, depth);
    }

    private static Object container(Class<?> raw) throws Exception {
        if (!raw.isInterface()) {
            return raw.getDeclaredConstructor().newInstance();
        } else if (ConcurrentMap.class.isAssignableFrom(raw)) {
            return new ConcurrentHashMap<>();
        } else if (SortedMap.class.isAssignableFrom(raw)) {
            return new TreeMap<>();
        } else if (Map.class.isAssignableFrom(raw)) {
            return new HashMap<>();
        }
        return SortedSet.class.isAssignableFrom(raw) ? new TreeSet<>() : new HashSet<>();
    }
}
