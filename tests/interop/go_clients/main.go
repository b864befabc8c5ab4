// Stock Go clients of somebody else's broker, which obey lines as those of Java do (../oracle/README.md, `clients`): of
// what is there, `consume` (without an order), `stop` and `send`.
package main

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type operation struct {
	Op, As, Names, Group, Tags, Sql, Topic, Keys, How string
	Topics, Bodies                                    []string
	Refuse                                            int32
	Level                                             int
}

var (
	turn      sync.Mutex
	pushed    = map[string]rocketmq.PushConsumer{}
	producers = map[string]rocketmq.Producer{} // by name server: each goes on for good
	made      int
	answer    = map[string]any{"status": "OK"} // of the operation that runs
)

func say(row map[string]any) {
	line, err := json.Marshal(row)
	if err != nil {
		panic(err)
	}
	turn.Lock()
	defer turn.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func consume(op operation) error {
	made++
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(primitive.NamesrvAddr{op.Names}),
		consumer.WithGroupName(op.Group),
		consumer.WithInstance(fmt.Sprintf("%d-%d", os.Getpid(), made)),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return err
	}
	if op.Tags == "" {
		op.Tags = "*"
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: op.Tags}
	if op.Sql != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: op.Sql}
	}
	for _, topic := range op.Topics {
		err = c.Subscribe(topic, selector,
			func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				again := false
				for _, message := range messages {
					row := facts(message)
					row["as"] = op.As
					say(row)
					again = again || message.ReconsumeTimes < op.Refuse
				}
				if again {
					return consumer.ConsumeRetryLater, nil
				}
				return consumer.ConsumeSuccess, nil
			})
		if err != nil {
			return err
		}
	}
	pushed[op.As] = c
	return c.Start()
}

func producerOf(names string) (rocketmq.Producer, error) {
	if p, known := producers[names]; known {
		return p, nil
	}
	made++
	p, err := rocketmq.NewProducer(
		producer.WithNameServer(primitive.NamesrvAddr{names}),
		producer.WithInstanceName(fmt.Sprintf("%d-%d", os.Getpid(), made)))
	if err != nil {
		return nil, err
	}
	if err = p.Start(); err != nil {
		return nil, err
	}
	producers[names] = p
	return p, nil
}

// Sends bodies one by one, as one batch, or all at once without waiting; what was acknowledged.
func send(op operation) error {
	p, err := producerOf(op.Names)
	if err != nil {
		return err
	}
	messages := []*primitive.Message{}
	for _, body := range op.Bodies {
		message := primitive.NewMessage(op.Topic, []byte(body)).WithTag(op.Tags).WithKeys([]string{op.Keys})
		messages = append(messages, message.WithDelayTimeLevel(op.Level))
	}
	sent := []map[string]any{}
	switch op.How {
	case "batch":
		result, err := p.SendSync(context.Background(), messages...)
		if err != nil {
			return err
		}
		sent = append(sent, told(result, "batch"))
	case "oneway":
		for _, message := range messages {
			if err := p.SendOneWay(context.Background(), message); err != nil {
				return err
			}
		}
	case "async":
		sent = sendAtOnce(p, messages)
	default:
		for _, message := range messages {
			result, err := p.SendSync(context.Background(), message)
			if err != nil {
				return err
			}
			sent = append(sent, told(result, string(message.Body)))
		}
	}
	answer = map[string]any{"sent": sent}
	return nil
}

// The client may call back twice for one failure, so answers are counted by message. A send whose 3 s are over ends the
// whole process (a nil answer is read): all at once is for brokers that live.
func sendAtOnce(p rocketmq.Producer, messages []*primitive.Message) []map[string]any {
	answers := make(chan map[string]any, 2*len(messages))
	left := 0
	for _, message := range messages {
		var once sync.Once
		body := string(message.Body)
		err := p.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
			once.Do(func() {
				if err != nil {
					answers <- nil
				} else {
					answers <- told(result, body)
				}
			})
		}, message)
		if err == nil {
			left++
		}
	}
	sent := []map[string]any{}
	limit := time.After(10 * time.Second)
	for ; left > 0; left-- {
		select {
		case row := <-answers:
			if row != nil {
				sent = append(sent, row)
			}
		case <-limit:
			return sent
		}
	}
	return sent
}

func told(result *primitive.SendResult, body string) map[string]any {
	status := "SEND_OK"
	if result.Status != primitive.SendOK {
		status = fmt.Sprintf("status %d", result.Status)
	}
	return map[string]any{
		"status": status, "id": result.MsgID, "body": body, "offsetId": result.OffsetMsgID,
		"queue": result.MessageQueue.QueueId, "offset": result.QueueOffset}
}

func facts(m *primitive.MessageExt) map[string]any {
	hash := sha1.Sum(m.Body)
	row := map[string]any{
		"topic": m.Topic, "queue": m.Queue.QueueId, "offset": m.QueueOffset, "position": m.CommitLogOffset, "id": m.MsgId,
		"tags": nil, "keys": nil, "sha1": hex.EncodeToString(hash[:]), "bytes": len(m.Body), "times": m.ReconsumeTimes}
	for name, property := range map[string]string{"tags": primitive.PropertyTags, "keys": primitive.PropertyKeys} {
		if value := m.GetProperty(property); value != "" {
			row[name] = value
		}
	}
	return row
}

func execute(line []byte) error {
	var op operation
	if err := json.Unmarshal(line, &op); err != nil {
		return err
	}
	switch op.Op {
	case "consume":
		return consume(op)
	case "stop":
		stopped := pushed[op.As]
		delete(pushed, op.As)
		return stopped.Shutdown()
	case "send":
		return send(op)
	}
	return fmt.Errorf("unknown operation %q", op.Op)
}

func main() {
	rlog.SetLogLevel("fatal")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := execute(lines.Bytes()); err != nil {
			say(map[string]any{"error": err.Error()})
		} else {
			say(answer)
		}
		answer = map[string]any{"status": "OK"}
	}
	for _, c := range pushed {
		c.Shutdown() // which commits the groups' offsets
	}
}
