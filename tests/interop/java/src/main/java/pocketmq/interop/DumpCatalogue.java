package pocketmq.interop;

import java.lang.annotation.Annotation;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.net.URI;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import org.apache.rocketmq.common.action.RocketMQAction;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RequestCode;

/**
 * Prints, as one JSON object, what RocketMQ's own jars declare: request codes, header classes with
 * the codes that they are annotated with, and the classes of bodies; each with its fields.
 */
public final class DumpCatalogue {
    private static final String PACKAGE = "org.apache.rocketmq.remoting.protocol.";
    private static final List<String> ELSEWHERE = List.of(
        "org.apache.rocketmq.common.TopicConfig", "org.apache.rocketmq.common.message.MessageQueue");

    public static void main(String[] args) throws Exception {
        Map<String, Object> codes = new TreeMap<>();
        for (Field field : RequestCode.class.getFields()) {
            codes.put(field.getName(), field.getInt(null));
        }
        List<Class<?>> classes = new ArrayList<>();
        URI jar = RequestCode.class.getProtectionDomain().getCodeSource().getLocation().toURI();
        try (FileSystem files = FileSystems.newFileSystem(Path.of(jar));
                Stream<Path> all = Files.walk(files.getPath(PACKAGE.replace('.', '/')))) {
            for (Path path : (Iterable<Path>) all.sorted()::iterator) {
                String name = path.toString().replace('/', '.');
                if (name.endsWith(".class") && !name.matches(".*\\$\\d+\\.class")) {
                    classes.add(Class.forName(name.substring(0, name.length() - 6), false,
                        DumpCatalogue.class.getClassLoader()));
                }
            }
        }
        for (String name : ELSEWHERE) {
            classes.add(Class.forName(name));
        }
        Map<String, Object> headers = new TreeMap<>();
        Map<String, Object> bodies = new TreeMap<>();
        for (Class<?> type : classes) {
            if (type.isInterface() || Modifier.isAbstract(type.getModifiers()) && !type.isEnum()) {
                continue;
            }
            Map<String, Object> told = new LinkedHashMap<>();
            if (CommandCustomHeader.class.isAssignableFrom(type)) {
                RocketMQAction action = type.getAnnotation(RocketMQAction.class);
                if (action != null) {
                    told.put("code", action.value());
                }
                told.put("fields", fields(type));
                headers.put(type.getName(), told);
            } else if (type.isEnum()) {
                List<String> names = new ArrayList<>();
                for (Object constant : type.getEnumConstants()) {
                    names.add(((Enum<?>) constant).name());
                }
                told.put("constants", names);
                bodies.put(type.getName(), told);
            } else if (isBody(type.getName())) {
                told.put("fields", fields(type));
                bodies.put(type.getName(), told);
            }
        }
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("codes", codes);
        all.put("headers", headers);
        all.put("bodies", bodies);
        System.out.println(JSON.toJSONString(all, JSONWriter.Feature.PrettyFormat));
        System.exit(0);
    }

    private static boolean isBody(String name) {
        String rest = name.startsWith(PACKAGE) ? name.substring(PACKAGE.length()) : "";
        return ELSEWHERE.contains(name) || rest.matches("(body|heartbeat|subscription|admin)\\..*");
    }

    /** Name -> type, and whether RocketMQ's decoder demands it, from the base class down. */
    private static Map<String, Object> fields(Class<?> type) {
        List<Class<?>> levels = new ArrayList<>();
        for (Class<?> each = type; each != Object.class; each = each.getSuperclass()) {
            levels.add(each);
        }
        Collections.reverse(levels);
        Map<String, Object> told = new TreeMap<>();
        for (Class<?> level : levels) {
            for (Field field : level.getDeclaredFields()) {
                int modifiers = field.getModifiers();
                if (Modifier.isStatic(modifiers) || Modifier.isTransient(modifiers)
                        || field.isSynthetic()) {
                    continue;
                }
                boolean needed = false;
                for (Annotation each : field.getAnnotations()) {
                    needed |= each.annotationType().getSimpleName().equals("CFNotNull");
                }
                String name = field.getGenericType().getTypeName();
                told.put(field.getName(), needed ? name + " needed" : name);
            }
        }
        return told;
    }
}
