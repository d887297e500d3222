import static org.junit.jupiter.api.Assertions.*;

import java.net.URI;
import java.net.http.*;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.*;

class OrdersTest {
    static String nameservers, control;
    @BeforeAll static void start() throws Exception {
        var up = new ProcessBuilder("pocketmq", "up", "--wait-ready", "--exit-with-parent", "--any-port", "--control-port", "0", "--clock", "manual");
        var told = up.redirectError(ProcessBuilder.Redirect.INHERIT).start().inputReader().lines().toList();  // once it is ready
        nameservers = told.get(0).replace("NAMESRV_ADDR=", "");
        control = told.get(1).replace("POCKETMQ_CONTROL=", "");
    }
    @AfterAll static void stop() throws Exception { ask("/stop", ""); }

    static String ask(String path, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(control + path));
        if (body != null) request.POST(HttpRequest.BodyPublishers.ofString(body));
        return HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString()).body();
    }

    @Test void anOrderSurvivesItsBroker() throws Exception {
        ask("/topics", "{\"name\": \"orders\"}");
        var shop = new DefaultMQProducer("shop");
        shop.setNamesrvAddr(nameservers);
        shop.start();
        var order = new Message("orders", "order 17".getBytes());
        order.setDelayTimeLevel(16);  // in half an hour
        shop.send(order);
        shop.shutdown();
        ask("/roles/broker-a/kill", "");  // as kill -9 does
        ask("/roles/broker-a/restart", "");
        ask("/clock/advance", "{\"seconds\": 1860}");
        assertTrue(ask("/messages?topic=orders", null).contains("order 17"));
    }
}
