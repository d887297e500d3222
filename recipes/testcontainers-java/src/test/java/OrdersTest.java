import static org.junit.jupiter.api.Assertions.*;

import java.net.*;
import java.net.http.*;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;

class OrdersTest {
    static String ask(GenericContainer<?> container, String path, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + container.getMappedPort(9870) + path)).header("Authorization", "Bearer of-this-test");
        if (body != null) request.POST(HttpRequest.BodyPublishers.ofString(body));
        return HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString()).body();
    }

    @Test void anOrderSurvivesItsBroker() throws Exception {
        int broker;  // the broker tells it to clients: inside as outside
        try (var free = new ServerSocket(0)) { broker = free.getLocalPort(); }
        try (var cluster = new GenericContainer<>("pocketmq").withCommand("--clock", "manual").withExposedPorts(9876, 9870)) {
            cluster.withEnv("POCKETMQ_CLUSTER_BROKER_PORT", "" + broker).withEnv("POCKETMQ_CONTROL_TOKEN", "of-this-test");
            cluster.setPortBindings(List.of(broker + ":" + broker));
            cluster.waitingFor(Wait.forHealthcheck()).start();
            ask(cluster, "/topics", "{\"name\": \"orders\"}");
            var shop = new DefaultMQProducer("shop");
            shop.setNamesrvAddr("127.0.0.1:" + cluster.getMappedPort(9876));
            shop.start();
            var order = new Message("orders", "order 17".getBytes());
            order.setDelayTimeLevel(16);  // in half an hour
            shop.send(order, 30_000);  // ms: the first message to a new container may take long
            shop.shutdown();
            for (var deed : List.of("kill", "restart")) ask(cluster, "/roles/broker-a/" + deed, "");  // as kill -9 does
            ask(cluster, "/clock/advance", "{\"seconds\": 1860}");
            assertTrue(ask(cluster, "/messages?topic=orders", null).contains("order 17"));
        }
    }
}
