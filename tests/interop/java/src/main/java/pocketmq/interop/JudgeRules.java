package pocketmq.interop;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.List;
import java.util.stream.Collectors;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import org.apache.rocketmq.common.action.Action;
import org.apache.rocketmq.remoting.protocol.body.AclInfo;

/**
 * RocketMQ's own decision about each case of a file, a line for each: the decision and the resource
 * of the entry that decides, or {@code none}, or {@code error}. The classes of its broker are found
 * by name, since most programs here are compiled without them.
 */
public final class JudgeRules {
    private static final String AUTH = "org.apache.rocketmq.auth.";

    private JudgeRules() {
    }

    public static void main(String[] args) throws Exception {
        JSONArray cases = JSON.parseArray(
            new String(Files.readAllBytes(Paths.get(args[0])), StandardCharsets.UTF_8));
        Class<?> handlerClass = Class.forName(AUTH + "authorization.chain.AclAuthorizationHandler");
        Class<?> configClass = Class.forName(AUTH + "config.AuthConfig");
        Class<?> contextClass =
            Class.forName(AUTH + "authorization.context.DefaultAuthorizationContext");
        Class<?> aclClass = Class.forName(AUTH + "authorization.model.Acl");
        Class<?> resourceClass = Class.forName(AUTH + "authorization.model.Resource");
        Class<?> entryClass = Class.forName(AUTH + "authorization.model.PolicyEntry");
        Object handler = handlerClass.getConstructor(configClass)
            .newInstance(configClass.getConstructor().newInstance());
        Method match =
            handlerClass.getDeclaredMethod("matchPolicyEntries", contextClass, aclClass);
        match.setAccessible(true);
        Method convert = Class.forName("org.apache.rocketmq.broker.auth.converter.AclConverter")
            .getMethod("convertAcl", AclInfo.class);
        Method context = contextClass.getMethod("of",
            Class.forName(AUTH + "authentication.model.Subject"), resourceClass, List.class,
            String.class);
        Method resource = resourceClass.getMethod("of", String.class);
        Object user = Class.forName(AUTH + "authentication.model.User")
            .getMethod("of", String.class).invoke(null, "shop");
        for (int i = 0; i < cases.size(); i++) {
            JSONObject each = cases.getJSONObject(i);
            List<Action> actions = each.getList("actions", String.class).stream()
                .map(Action::getByName).collect(Collectors.toList());
            Object asked = context.invoke(null, user,
                resource.invoke(null, each.getString("resource")), actions, each.getString("ip"));
            Object acl = convert.invoke(null, each.getObject("acl", AclInfo.class));
            try {
                Object entry = match.invoke(handler, asked, acl);
                System.out.println(entry == null ? "none"
                    : named(entryClass.getMethod("getDecision").invoke(entry)) + " "
                        + entryClass.getMethod("toResourceStr").invoke(entry));
            } catch (InvocationTargetException exc) {
                System.out.println("error");
            }
        }
    }

    private static String named(Object decision) {
        String name = decision.toString();
        return name.charAt(0) + name.substring(1).toLowerCase();
    }
}
