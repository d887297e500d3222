package orders

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
func TestAnOrderSurvivesItsBroker(t *testing.T) {
	cluster := newCluster(t)
	ask := func(method, path, body string) string {
		request := must(http.NewRequest(method, must(cluster.PortEndpoint(t.Context(), "9870/tcp", "http"))+path, strings.NewReader(body)))
		request.Header.Set("Authorization", "Bearer of-this-test")
		answer := must(http.DefaultClient.Do(request)).Body
		defer answer.Close()
		return string(must(io.ReadAll(answer)))
	}
	ask("POST", "/topics", `{"name": "orders"}`)
	shop := must(rocketmq.NewProducer(producer.WithNameServer([]string{must(cluster.PortEndpoint(t.Context(), "9876/tcp", ""))})))
	must(shop, shop.Start())
	must(shop.SendSync(t.Context(), primitive.NewMessage("orders", []byte("order 17")).WithDelayTimeLevel(16)))
	ask("POST", "/roles/broker-a/kill", "") // as kill -9 does
	ask("POST", "/roles/broker-a/restart", "")
	ask("POST", "/clock/advance", `{"seconds": 1860}`) // level 16 is half an hour
	if !strings.Contains(ask("GET", "/messages?topic=orders", ""), "order 17") {
		t.Fatal("it is lost")
	}
}
