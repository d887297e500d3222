package orders

import (
	"context"
	"io"
	"net/http"
	"os/exec"
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
	up := exec.Command("pocketmq", "up", "--wait-ready", "--exit-with-parent", "--any-port", "--control-port", "0", "--clock", "manual")
	told := strings.FieldsFunc(string(must(up.Output())), func(at rune) bool { return at == '=' || at == '\n' }) // NAMESRV_ADDR=... POCKETMQ_CONTROL=...
	post := func(path, body string) {
		must(http.Post(told[3]+path, "application/json", strings.NewReader(body))).Body.Close()
	}
	defer post("/stop", "")
	post("/topics", `{"name": "orders"}`)
	shop := must(rocketmq.NewProducer(producer.WithNameServer(told[1:2])))
	must(shop, shop.Start())
	must(shop.SendSync(context.Background(), primitive.NewMessage("orders", []byte("order 17")).WithDelayTimeLevel(16)))
	post("/roles/broker-a/kill", "") // as kill -9 does
	post("/roles/broker-a/restart", "")
	post("/clock/advance", `{"seconds": 1860}`) // level 16 is half an hour
	if stored := string(must(io.ReadAll(must(http.Get(told[3] + "/messages?topic=orders")).Body))); !strings.Contains(stored, "order 17") {
		t.Fatal(stored)
	}
}
