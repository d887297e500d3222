// Accounts: what a broker says to each of the steps in the arguments, and whether over TLS.
//
//	accounts NAMESERVER TLS send:KEY:SECRET:TOPIC:GROUP read:KEY:SECRET:TOPIC:GROUP ...
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const limit = 60 * time.Second

func send(where []string, tls bool, keys primitive.Credentials, topic, name string) (string, error) {
	shop, err := rocketmq.NewProducer(
		producer.WithNameServer(where), producer.WithTls(tls), producer.WithCredentials(keys),
		producer.WithInstanceName(name), producer.WithGroupName("shop"), producer.WithRetry(0),
		producer.WithSendMsgTimeout(limit))
	if err != nil {
		return "", err
	}
	if err := shop.Start(); err != nil {
		return "", err
	}
	defer shop.Shutdown()
	message := primitive.NewMessage(topic, []byte("body of an order"))
	message.WithKeys([]string{"key-of-an-order"})
	_, err = shop.SendSync(context.Background(), message)
	return "SENT", err
}

func read(where []string, tls bool, keys primitive.Credentials, topic, group, name string) (string, error) {
	billing, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer(where), consumer.WithTls(tls), consumer.WithCredentials(keys),
		consumer.WithInstance(name), consumer.WithGroupName(group))
	if err != nil {
		return "", err
	}
	if err := billing.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}); err != nil {
		return "", err
	}
	if err := billing.Start(); err != nil {
		return "", err
	}
	defer billing.Shutdown()
	queue := &primitive.MessageQueue{Topic: topic, BrokerName: "broker-a", QueueId: 0}
	found, err := billing.PullFrom(context.Background(), queue, 0, 32)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("READ %d", len(found.GetMessageExts())), nil
}

func main() {
	rlog.SetLogLevel("fatal")
	where, tls := []string{os.Args[1]}, os.Args[2] == "tls"
	for i, step := range os.Args[3:] {
		part := strings.Split(step, ":")
		keys := primitive.Credentials{AccessKey: part[1], SecretKey: part[2]}
		name := fmt.Sprintf("step-%d", i)
		var said string
		var err error
		if part[0] == "send" {
			said, err = send(where, tls, keys, part[3], name)
		} else {
			said, err = read(where, tls, keys, part[3], part[4], name)
		}
		if err != nil {
			said = "REFUSED " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println("STEP", part[0], said)
	}
}
