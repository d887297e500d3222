// RocketMQ's official Go SDK through a proxy: every row of its own table of features but lite
// topics. `go run . 127.0.0.1:8081`; and with `priority`, the row that needs brokers like 5.5.
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

func body(message *rmq.MessageView) string {
	return string(message.GetBody())
}

func producing(topic string, options ...rmq.ProducerOption) rmq.Producer {
	producer, err := rmq.NewProducer(config(""), append(options, rmq.WithTopics(topic))...)
	must(err)
	must(producer.Start())
	return producer
}

func tagged(topic, tag, body string) *rmq.Message {
	message := &rmq.Message{Topic: topic, Body: []byte(body)}
	message.SetTag(tag)
	return message
}

func sent(producer rmq.Producer, message *rmq.Message) *rmq.SendReceipt {
	receipts, err := producer.Send(ctx, message)
	must(err)
	return receipts[0]
}

func consuming(group, topic string, filter *rmq.FilterExpression) (rmq.SimpleConsumer, error) {
	consumer, err := rmq.NewSimpleConsumer(config(group),
		rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: filter}))
	must(err)
	return consumer, consumer.Start()
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

// Acknowledges so many messages of a topic, and returns what is in them.
func consumed(group, topic string, filter *rmq.FilterExpression, count int) (bodies []string) {
	consumer, err := consuming(group, topic, filter)
	must(err)
	for _, message := range some(consumer, count) {
		bodies = append(bodies, body(message))
		must(consumer.Ack(ctx, message))
	}
	must(consumer.GracefulStop())
	sort.Strings(bodies)
	return bodies
}

// A consumer that runs until it is stopped. For each message it says what is in it, when it has
// counted it and before it answers.
func pushing(
	group, topic string, ok func(*rmq.MessageView) bool,
) (rmq.PushConsumer, <-chan string) {
	seen := make(chan string, 1000)
	listen := func(message *rmq.MessageView) rmq.ConsumerResult {
		seen <- body(message)
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
	return consumer, seen
}

func pushed(group, topic string, count int) (bodies []string) {
	consumer, seen := pushing(group, topic, func(*rmq.MessageView) bool { return true })
	for len(bodies) < count {
		bodies = append(bodies, <-seen)
	}
	must(consumer.GracefulStop())
	return bodies
}

func normal() {
	producer := producing("orders")
	sent(producer, tagged("orders", "old", "zero"))
	sent(producer, tagged("orders", "new", "one"))
	second := tagged("orders", "new", "two")
	second.AddProperty("number", "2")
	sent(producer, second)
	must(producer.GracefulStop())

	consumer, err := consuming("simple", "orders", rmq.NewFilterExpression("new"))
	must(err)
	for _, message := range some(consumer, 2) {
		if body(message) == "one" {
			must(consumer.ChangeInvisibleDuration(message, time.Second))
		} else {
			must(consumer.Ack(ctx, message))
		}
	}
	again := some(consumer, 1)[0]
	must(consumer.Ack(ctx, again))
	fmt.Println("simple", body(again), again.GetDeliveryAttempt(), *again.GetTag())
	must(consumer.GracefulStop())

	isSecond := rmq.NewFilterExpressionWithType("number = 2", rmq.SQL92)
	fmt.Println("sql", consumed("sql", "orders", isSecond, 1))
	all := pushed("push", "orders", 3)
	sort.Strings(all)
	fmt.Println("push", all)
}

func ordered() {
	producer := producing("payments")
	for _, each := range []string{"1", "2", "3", "4"} {
		message := tagged("payments", "new", each)
		message.SetMessageGroup("customer-17")
		sent(producer, message)
	}
	must(producer.GracefulStop())
	fmt.Println("fifo", pushed("fifo", "payments", 4))
}

// Two messages for later, of which the first is taken back; what is returned waits for the other.
func delayed() func() {
	producer := producing("later")
	due := time.Now().Add(20 * time.Second)
	message := tagged("later", "new", "never")
	message.SetDelayTimestamp(due)
	handle := sent(producer, message).RecallHandle
	message = tagged("later", "new", "due")
	due = due.Add(2 * time.Second)
	message.SetDelayTimestamp(due)
	sent(producer, message)
	_, err := producer.Recall(ctx, "later", handle)
	must(err)
	must(producer.GracefulStop())
	return func() {
		fmt.Println("delayed", consumed("delayed", "later", rmq.SUB_ALL, 1), !time.Now().Before(due))
	}
}

// Transactions that end by their producer, or when the broker asks for it.
func transactions() {
	var lock sync.Mutex
	asked := map[string]bool{}
	check := func(message *rmq.MessageView) rmq.TransactionResolution {
		lock.Lock()
		defer lock.Unlock()
		asked[body(message)] = true
		if body(message) == "forgotten" {
			return rmq.ROLLBACK
		}
		return rmq.COMMIT
	}
	producer := producing("deals", rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: check}))
	for _, each := range []string{"rollback", "forgotten", "asked", "commit"} {
		transaction := producer.BeginTransaction()
		_, err := producer.SendWithTransaction(ctx, tagged("deals", "new", each), transaction)
		must(err)
		if each == "commit" {
			must(transaction.Commit())
		} else if each == "rollback" {
			must(transaction.RollBack())
		}
	}
	deals := consumed("deals", "deals", rmq.SUB_ALL, 2)
	lock.Lock()
	defer lock.Unlock()
	fmt.Println("transactions", deals, asked)
	must(producer.GracefulStop())
}

func failing() {
	producer := producing("retried")
	sent(producer, tagged("retried", "new", "bad"))
	must(producer.GracefulStop())
	// Open until the message is dead: stopped before, it may not have said that the second try failed.
	consumer, seen := pushing("retried", "retried", func(*rmq.MessageView) bool { return false })
	first := <-seen
	since := time.Now()
	fmt.Println("retried", first, <-seen, time.Since(since) >= time.Second)
	for { // until the dead letters have a topic
		undertaker, err := consuming("undertaker", "%DLQ%retried", rmq.SUB_ALL)
		if err == nil {
			must(undertaker.GracefulStop())
			break
		}
	}
	fmt.Println("dead", consumed("undertaker", "%DLQ%retried", rmq.SUB_ALL, 1))
	must(consumer.GracefulStop())
}

func priority() {
	producer := producing("urgent")
	for _, value := range []int32{1, 3, 2} {
		message := tagged("urgent", "new", fmt.Sprint(value))
		must(message.SetPriority(value))
		sent(producer, message)
	}
	must(producer.GracefulStop())
	consumer, err := consuming("urgent", "urgent", rmq.SUB_ALL)
	must(err)
	found := some(consumer, 3)
	fmt.Println("priority", body(found[0]), body(found[1]), body(found[2]))
	must(consumer.GracefulStop())
}

func main() {
	if len(os.Args) > 2 {
		priority()
		return
	}
	later := delayed()
	normal()
	ordered()
	transactions()
	failing()
	later()
}
