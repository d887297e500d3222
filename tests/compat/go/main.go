// A program with RocketMQ's Go client: `shop NAMESERVER`. Its topics must be there.
//
// Prints `ROW name ok` or `ROW name failed why` for each thing that it does.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	count = 20
	limit = 60 * time.Second
)

var (
	where   []string
	forever = context.Background()
	all     = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
)

type inbox chan *primitive.MessageExt

func main() {
	rlog.SetLogLevel("fatal")
	go func() { // a program whose starter is gone ends too
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
	where = []string{os.Args[1]}
	rows := []struct {
		name string
		run  func() error
	}{
		{"send", send}, {"async", async}, {"one-way", oneWay}, {"batch", batch}, {"tags", tags}, {"sql", sql},
		{"delay", delay}, {"timer", timer}, {"orderly", orderly}, {"broadcast", broadcast}, {"retry", retry},
		{"transaction", transaction}, {"request", request}, {"request-async", requestAsync}, {"pull", pull},
	}
	ends := make([]chan error, len(rows))
	for i, row := range rows {
		ends[i] = make(chan error, 1)
		go func(i int, run func() error) { ends[i] <- run() }(i, row.run)
	}
	for i, row := range rows {
		if err := <-ends[i]; err != nil {
			fmt.Println("ROW", row.name, "failed", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ROW", row.name, "ok")
		}
	}
}

// -- rows ------------------------------------------------------------------------------------------

func send() error {
	shop, err := newProducer("go-send")
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	for i := 0; i < count; i++ {
		message := newMessage("GoSend", "TagA", strconv.Itoa(i)).WithKeys([]string{"key-" + strconv.Itoa(i)})
		if err := stored(shop.SendSync(forever, message)); err != nil {
			return err
		}
	}
	received, err := consume("go-send", "GoSend", all)
	if err != nil {
		return err
	}
	keys := map[string]string{}
	for len(keys) < count {
		message, err := next(received, fmt.Sprint("of ", count, ": ", len(keys)))
		if err != nil {
			return err
		}
		keys[string(message.Body)] = message.GetKeys()
	}
	return same("key-7", keys["7"])
}

func async() error {
	shop, err := newProducer("go-async")
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	results := make(chan error, 1)
	told := func(_ context.Context, result *primitive.SendResult, err error) { results <- stored(result, err) }
	if err := shop.SendAsync(forever, told, newMessage("GoAsync", "TagA", "async")); err != nil {
		return err
	}
	if err := <-results; err != nil {
		return err
	}
	return comes("go-async", "GoAsync", all, "async")
}

func oneWay() error {
	shop, err := newProducer("go-one-way")
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	if err := shop.SendOneWay(forever, newMessage("GoOneWay", "TagA", "one way")); err != nil {
		return err
	}
	return comes("go-one-way", "GoOneWay", all, "one way")
}

func batch() error {
	shop, err := newProducer("go-batch")
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	var messages []*primitive.Message
	for i := 0; i < 3; i++ {
		messages = append(messages, newMessage("GoBatch", "TagA", strconv.Itoa(i)))
	}
	if err := stored(shop.SendSync(forever, messages...)); err != nil {
		return err
	}
	return comes("go-batch", "GoBatch", all, "0", "1", "2")
}

func tags() error {
	shop, err := newProducer("go-tags")
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	for _, tag := range []string{"TagA", "TagB", "TagC"} {
		if err := stored(shop.SendSync(forever, newMessage("GoTags", tag, "of "+tag))); err != nil {
			return err
		}
	}
	chosen := consumer.MessageSelector{Type: consumer.TAG, Expression: "TagA || TagC"}
	return comes("go-tags", "GoTags", chosen, "of TagA", "of TagC")
}

func sql() error {
	shop, err := newProducer("go-sql")
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	for i := 0; i < 4; i++ {
		message := newMessage("GoSql", "TagA", strconv.Itoa(i))
		message.WithProperty("number", strconv.Itoa(i))
		if err := stored(shop.SendSync(forever, message)); err != nil {
			return err
		}
	}
	chosen := consumer.MessageSelector{Type: consumer.SQL92, Expression: "number > 1"}
	return comes("go-sql", "GoSql", chosen, "2", "3")
}

func delay() error {
	return later("GoDelay", 5_000, func(message *primitive.Message, _ time.Time) { message.WithDelayTimeLevel(2) })
}

// The time is kept to the second before.
func timer() error {
	return later("GoTimer", 2_000, func(message *primitive.Message, now time.Time) {
		message.WithDelayTimestamp(now.Add(3 * time.Second))
	})
}

func later(topic string, leastMs int64, delayed func(*primitive.Message, time.Time)) error {
	shop, err := newProducer("go-later-" + topic)
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	sent := time.Now()
	message := newMessage(topic, "TagA", "later")
	delayed(message, sent)
	if err := stored(shop.SendSync(forever, message)); err != nil {
		return err
	}
	received, err := consume("go-later-"+topic, topic, all)
	if err != nil {
		return err
	}
	come, err := next(received, "the message")
	if err != nil {
		return err
	}
	if after := come.StoreTimestamp - sent.UnixMilli(); after < leastMs {
		return fmt.Errorf("came after %d ms", after)
	}
	return nil
}

// Messages of one sharding key are in one queue and come in order, also after one was refused.
func orderly() error {
	shop, err := newProducer("go-orderly", producer.WithQueueSelector(producer.NewHashQueueSelector()))
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	for i := 0; i < count; i++ {
		for _, name := range []string{"anna", "bert", "carl"} {
			message := newMessage("GoOrderly", name, strconv.Itoa(i)).WithShardingKey(name)
			if err := stored(shop.SendSync(forever, message)); err != nil {
				return err
			}
		}
	}
	received := make(inbox, 1000)
	var refused sync.Map
	steps, err := newConsumer("go-orderly", consumer.WithConsumerOrder(true))
	if err != nil {
		return err
	}
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			if _, again := refused.LoadOrStore(message.GetTags(), true); !again && string(message.Body) == "0" {
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			received <- message
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := steps.Subscribe("GoOrderly", all, take); err != nil {
		return err
	}
	if err := steps.Start(); err != nil {
		return err
	}
	defer steps.Shutdown()
	following := map[string]int{}
	for i := 0; i < 3*count; i++ {
		message, err := next(received, fmt.Sprint("message ", i))
		if err != nil {
			return err
		}
		if err := same(strconv.Itoa(following[message.GetTags()]), string(message.Body)); err != nil {
			return err
		}
		following[message.GetTags()]++
	}
	return nil
}

func broadcast() error {
	shop, err := newProducer("go-prices")
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	for i := 0; i < count; i++ {
		if err := stored(shop.SendSync(forever, newMessage("GoPrices", "TagA", strconv.Itoa(i)))); err != nil {
			return err
		}
	}
	for _, name := range []string{"first", "second"} {
		received, err := consume("go-prices", "GoPrices", all,
			consumer.WithConsumerModel(consumer.BroadCasting), consumer.WithInstance(name))
		if err != nil {
			return err
		}
		bodies := map[string]bool{}
		for len(bodies) < count {
			message, err := next(received, fmt.Sprint(name, ": of ", count, ": ", len(bodies)))
			if err != nil {
				return err
			}
			bodies[string(message.Body)] = true
		}
	}
	return nil
}

// A message that is refused comes again.
func retry() error {
	shop, err := newProducer("go-retry")
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	tries := make(chan int32, 100)
	refusing, err := newConsumer("go-retry")
	if err != nil {
		return err
	}
	take := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		tries <- messages[0].ReconsumeTimes
		if messages[0].ReconsumeTimes > 0 {
			return consumer.ConsumeSuccess, nil
		}
		if concurrently, known := primitive.GetConcurrentlyCtx(ctx); known {
			concurrently.DelayLevelWhenNextConsume = 1
		}
		return consumer.ConsumeRetryLater, nil
	}
	if err := refusing.Subscribe("GoRetry", all, take); err != nil {
		return err
	}
	if err := refusing.Start(); err != nil {
		return err
	}
	if err := stored(shop.SendSync(forever, newMessage("GoRetry", "TagA", "again"))); err != nil {
		return err
	}
	for expected := int32(0); expected < 2; expected++ {
		select {
		case found := <-tries:
			if err := same(expected, found); err != nil {
				return err
			}
		case <-time.After(limit):
			return fmt.Errorf("no try %d", expected+1)
		}
	}
	return nil
}

// By number modulo 3 a transaction commits, rolls back, or commits when it is asked for.
type accounts struct {
	asked sync.Map
}

func decision(body []byte) primitive.LocalTransactionState {
	number, _ := strconv.Atoi(string(body))
	return []primitive.LocalTransactionState{
		primitive.CommitMessageState, primitive.RollbackMessageState, primitive.UnkonwnState,
	}[number%3]
}

func (accounts *accounts) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return decision(message.Body)
}

func (accounts *accounts) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	if decided := decision(message.Body); decided != primitive.UnkonwnState {
		return decided // its decision was so long on the way that it is asked for
	}
	accounts.asked.Store(string(message.Body), true)
	return primitive.CommitMessageState
}

func transaction() error {
	accounts := &accounts{}
	shop, err := rocketmq.NewTransactionProducer(accounts, producer.WithNameServer(where),
		producer.WithGroupName("go-payments"), producer.WithInstanceName("go-payments"),
		producer.WithSendMsgTimeout(limit))
	if err != nil {
		return err
	}
	if err := shop.Start(); err != nil {
		return err
	}
	defer shop.Shutdown()
	for i := 0; i < 9; i++ {
		if _, err := shop.SendMessageInTransaction(forever, newMessage("GoPaid", "TagA", strconv.Itoa(i))); err != nil {
			return err
		}
	}
	if err := comes("go-paid", "GoPaid", all, "0", "2", "3", "5", "6", "8"); err != nil {
		return err
	}
	for _, body := range []string{"2", "5", "8"} {
		if _, asked := accounts.asked.Load(body); !asked {
			return fmt.Errorf("not asked for %s", body)
		}
	}
	return nil
}

func request() error {
	return asks("GoQuestions", func(rocketmq.Producer) error { return nil })
}

func requestAsync() error {
	return asks("GoMoreQuestions", func(shop rocketmq.Producer) error {
		outcomes := make(chan error, 1)
		told := func(_ context.Context, answer *primitive.Message, err error) {
			if err == nil {
				err = same("re: how far", string(answer.Body))
			}
			outcomes <- err
		}
		question := newMessage("GoMoreQuestions", "TagA", "how far")
		if err := shop.RequestAsync(forever, limit, told, question); err != nil {
			return err
		}
		select {
		case err := <-outcomes:
			return err
		case <-time.After(limit):
			return fmt.Errorf("no answer")
		}
	})
}

// Asks until an answer comes: a broker can hand answers over from a client's first heartbeat on, which
// this client sends up to 30 s after its start.
func asks(topic string, then func(rocketmq.Producer) error) error {
	replies, err := newProducer("go-replies-" + topic)
	if err != nil {
		return err
	}
	defer replies.Shutdown()
	answers, err := newConsumer("go-answers-" + topic)
	if err != nil {
		return err
	}
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			reply, err := consumer.CreateReplyMessage(message, nil)
			if err == nil {
				reply.Body = []byte("re: " + string(message.Body)) // the body in the arguments is left out
				_, _ = replies.SendSync(forever, reply)
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := answers.Subscribe(topic, all, take); err != nil {
		return err
	}
	if err := answers.Start(); err != nil {
		return err
	}
	defer answers.Shutdown()
	shop, err := newProducer("go-asks-" + topic)
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	for end := time.Now().Add(limit); ; {
		answer, err := shop.Request(forever, 5*time.Second, newMessage(topic, "TagA", "how many"))
		if err == nil {
			if err := same("re: how many", string(answer.Body)); err != nil {
				return err
			}
			return then(shop)
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// A consumer that asks when the program does.
func pull() error {
	shop, err := newProducer("go-pull")
	if err != nil {
		return err
	}
	defer shop.Shutdown()
	for i := 0; i < count; i++ {
		if err := stored(shop.SendSync(forever, newMessage("GoPull", "TagA", strconv.Itoa(i)))); err != nil {
			return err
		}
	}
	puller, err := rocketmq.NewPullConsumer(consumer.WithNameServer(where), consumer.WithGroupName("go-pull"),
		consumer.WithInstance("go-pull"), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return err
	}
	if err := puller.Subscribe("GoPull", all); err != nil {
		return err
	}
	if err := puller.Start(); err != nil {
		return err
	}
	defer puller.Shutdown()
	bodies := map[string]bool{}
	for end := time.Now().Add(limit); len(bodies) < count; {
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d came", len(bodies), count)
		}
		found, err := puller.Poll(forever, time.Second)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, message := range found.GetMsgList() {
			bodies[string(message.Body)] = true
		}
		puller.ACK(forever, found, consumer.ConsumeSuccess)
	}
	return nil
}

// -- clients ---------------------------------------------------------------------------------------

func newProducer(name string, options ...producer.Option) (rocketmq.Producer, error) {
	options = append(options, producer.WithNameServer(where), producer.WithGroupName(name),
		producer.WithInstanceName(name), producer.WithSendMsgTimeout(limit))
	made, err := rocketmq.NewProducer(options...)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func newConsumer(group string, options ...consumer.Option) (rocketmq.PushConsumer, error) {
	known := []consumer.Option{consumer.WithNameServer(where), consumer.WithGroupName(group),
		consumer.WithInstance(group), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}
	return rocketmq.NewPushConsumer(append(known, options...)...)
}

func consume(group, topic string, chosen consumer.MessageSelector, options ...consumer.Option) (inbox, error) {
	made, err := newConsumer(group, options...)
	if err != nil {
		return nil, err
	}
	received := make(inbox, 1000)
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			received <- message
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := made.Subscribe(topic, chosen, take); err != nil {
		return nil, err
	}
	return received, made.Start()
}

// The group receives messages with these bodies, each once, and first.
func comes(group, topic string, chosen consumer.MessageSelector, bodies ...string) error {
	received, err := consume(group, topic, chosen)
	if err != nil {
		return err
	}
	var found []string
	for range bodies {
		message, err := next(received, fmt.Sprint("of ", bodies, ": ", found))
		if err != nil {
			return err
		}
		found = append(found, string(message.Body))
	}
	sort.Strings(found)
	return same(fmt.Sprint(bodies), fmt.Sprint(found))
}

func next(received inbox, what string) (*primitive.MessageExt, error) {
	select {
	case message := <-received:
		return message, nil
	case <-time.After(limit):
		return nil, fmt.Errorf("did not come: %s", what)
	}
}

func newMessage(topic, tag, body string) *primitive.Message {
	return primitive.NewMessage(topic, []byte(body)).WithTag(tag)
}

func stored(result *primitive.SendResult, err error) error {
	if err == nil && result.Status != primitive.SendOK {
		err = fmt.Errorf("status %d", result.Status)
	}
	return err
}

func same(expected, found any) error {
	if expected != found {
		return fmt.Errorf("expected %v, found %v", expected, found)
	}
	return nil
}
