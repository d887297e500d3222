import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.rocketmq.acl.common.AclException;
import org.apache.rocketmq.acl.common.AclUtils;
import org.apache.rocketmq.acl.plain.PlainAccessValidator;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** What RocketMQ 4.9.8 decides about requests, by its own ACL 1.0: a line for each. */
public class JudgePlainAccess {
    public static void main(String[] args) throws Exception {
        JSONArray files = JSON.parseArray(Files.readString(Paths.get(args[0])));
        for (Object each : files) {
            JSONObject file = (JSONObject) each;
            Path home = Files.createTempDirectory("plain-access");
            Files.createDirectories(home.resolve("conf"));
            Files.writeString(home.resolve("conf/plain_acl.yml"), file.getString("yaml"));
            System.setProperty("rocketmq.home.dir", home.toString());
            PlainAccessValidator validator;
            try {
                validator = new PlainAccessValidator();
            } catch (AclException | NumberFormatException | ArrayIndexOutOfBoundsException e) {
                System.out.println("ANSWER file refused");
                continue;
            }
            for (Object one : file.getJSONArray("requests")) {
                System.out.println("ANSWER " + judge(validator, (JSONObject) one));
            }
        }
        System.exit(0);
    }

    private static String judge(PlainAccessValidator validator, JSONObject wanted) {
        RemotingCommand request = RemotingCommand.createRequestCommand(wanted.getIntValue("code"), null);
        HashMap<String, String> fields = new HashMap<>();
        wanted.getJSONObject("fields").forEach((name, value) -> fields.put(name, (String) value));
        request.setExtFields(fields);
        String body = wanted.getString("body");
        if (body != null) {
            request.setBody(body.getBytes(StandardCharsets.UTF_8));
        }
        if (wanted.getString("secret") != null) {
            SortedMap<String, String> sorted = new TreeMap<>(fields);
            byte[] text = AclUtils.combineRequestContent(request, sorted);
            fields.put("Signature", AclUtils.calSignature(text, wanted.getString("secret")));
        }
        try {
            validator.validate(validator.parse(request, wanted.getString("address")));
            return "allowed";
        } catch (AclException e) {
            return e.getMessage();
        }
    }
}
