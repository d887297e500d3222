// RocketMQ's official Go SDK through a proxy: what a producer, a simple consumer and a push consumer
// of it can do. `go run . 127.0.0.1:8081`
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

var ctx = context.Background()

func config(group string) *rmq.Config {
	return &rmq.Config{
		Endpoint: os.Args[1], ConsumerGroup: group, Credentials: &credentials.SessionCredentials{},
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func send(topic string, group string, bodies ...string) {
	producer, err := rmq.NewProducer(config(""), rmq.WithTopics(topic))
	must(err)
	must(producer.Start())
	for _, body := range bodies {
		message := &rmq.Message{Topic: topic, Body: []byte(body)}
		message.SetTag("new")
		if group != "" {
			message.SetMessageGroup(group)
		}
		_, err := producer.Send(ctx, message)
		must(err)
	}
	must(producer.GracefulStop())
}

func some(consumer rmq.SimpleConsumer, count int) (found []*rmq.MessageView) {
	for len(found) < count {
		messages, err := consumer.Receive(ctx, 16, 20*time.Second)
		if err != nil && !strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") {
			panic(err)
		}
		found = append(found, messages...)
	}
	return found
}

func simple() {
	send("orders", "", "one", "two")
	consumer, err := rmq.NewSimpleConsumer(config("go-simple"),
		rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{
			"orders": rmq.NewFilterExpression("new"),
		}))
	must(err)
	must(consumer.Start())
	for _, message := range some(consumer, 2) {
		if string(message.GetBody()) == "two" {
			must(consumer.Ack(ctx, message))
		} else {
			must(consumer.ChangeInvisibleDuration(message, time.Second))
		}
	}
	again := some(consumer, 1)[0]
	must(consumer.Ack(ctx, again))
	fmt.Println("simple", string(again.GetBody()), again.GetDeliveryAttempt(), *again.GetTag())
	must(consumer.GracefulStop())
}

func push(group string, topic string, count int, ok func(*rmq.MessageView) bool) (seen []string) {
	var lock sync.Mutex
	done := make(chan bool, 1000)
	listen := func(message *rmq.MessageView) rmq.ConsumerResult {
		lock.Lock()
		defer lock.Unlock()
		seen = append(seen, string(message.GetBody()))
		done <- true
		if ok(message) {
			return rmq.SUCCESS
		}
		return rmq.FAILURE
	}
	consumer, err := rmq.NewPushConsumer(config(group),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: listen}))
	must(err)
	must(consumer.Start())
	for i := 0; i < count; i++ {
		<-done
	}
	must(consumer.GracefulStop())
	lock.Lock()
	defer lock.Unlock()
	return seen
}

func main() {
	simple()
	always := func(*rmq.MessageView) bool { return true }
	seen := push("go-push", "orders", 2, always)
	sort.Strings(seen)
	fmt.Println("push", seen)
	send("payments", "customer-17", "1", "2", "3", "4")
	fmt.Println("fifo", push("fifo", "payments", 4, always))
	send("retried", "", "bad")
	fmt.Println("retried", push("retried", "retried", 2, func(message *rmq.MessageView) bool {
		return message.GetDeliveryAttempt() > 1
	}))
}
