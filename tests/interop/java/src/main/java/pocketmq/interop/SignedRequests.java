package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/**
 * Prints requests as RocketMQ's own hook signs them: name, access key, secret key, security token,
 * version, and the frame in hexadecimal, separated by tabs; an absent token is empty.
 */
public final class SignedRequests {
    private SignedRequests() {
    }

    public static void main(String[] args) {
        for (SerializeType type : SerializeType.values()) {
            print("plain", type, "rocketmq", "12345678", null, fields("topic", "Orders"), "body");
            print("no_body", type, "rocketmq", "12345678", null, fields("topic", "Orders"), null);
            print("no_fields", type, "rocketmq", "12345678", null, fields(), null);
            print("token", type, "shop", "s3cret", "STS.token", fields("b", "T", "a", "P"), "x");
            print("order_of_names", type, "shop", "s3cret", null,
                fields("z", "1", "Z", "2", "a", "3", "AccessKe", "4", "Signaturf", "5", "ReqT", "6",
                    "_", "7", "é", "8", "日", "9", "0", "10"), "x");
            print("other_scripts", type, "geschäft", "schlüssel", null,
                fields("topic", "注文", "note", "🚀 é"), "日本語");
            print("beyond_the_bmp", type, "shop", "s3cret", null,
                fields("\uFF5E", "after by code point", "\uD83D\uDE80", "first by code unit"), "");
            print("query_by_unique_key", type, "shop", "s3cret", null,
                fields("topic", "T", "_UNIQUE_KEY_QUERY", "true"), null);
        }
    }

    private static HashMap<String, String> fields(String... pairs) {
        HashMap<String, String> fields = new HashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            fields.put(pairs[i], pairs[i + 1]);
        }
        return fields;
    }

    private static void print(String name, SerializeType type, String accessKey, String secretKey,
        String token, HashMap<String, String> fields, String body) {
        RemotingCommand request = RemotingCommand.createRequestCommand(12, null);
        request.setSerializeTypeCurrentRPC(type);
        request.setVersion(479);
        request.setExtFields(fields);
        if (body != null) {
            request.setBody(body.getBytes(StandardCharsets.UTF_8));
        }
        SessionCredentials credentials = token == null
            ? new SessionCredentials(accessKey, secretKey)
            : new SessionCredentials(accessKey, secretKey, token);
        new AclClientRPCHook(credentials).doBeforeRequest("", request);
        StringBuilder hex = new StringBuilder();
        java.nio.ByteBuffer frame = request.encode();
        while (frame.hasRemaining()) {
            hex.append(String.format("%02x", frame.get()));
        }
        System.out.println(String.join("\t", name + "_" + type.name().toLowerCase(), accessKey,
            secretKey, token == null ? "" : token, hex));
    }
}
