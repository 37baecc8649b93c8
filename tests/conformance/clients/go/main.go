// amqp091-go, RabbitMQ's own client for Go.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var prefix = os.Getenv("PREFIX")

func behaviour(name string, what func()) {
	defer func() {
		if why := recover(); why != nil {
			fmt.Printf("not ok %s: %v\n", name, why)
			os.Exit(1)
		}
	}()
	what()
	fmt.Println("ok", name)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(holds bool, what ...interface{}) {
	if !holds {
		panic(fmt.Sprint(what...))
	}
}

func connect() (*amqp.Connection, *amqp.Channel) {
	var err error
	for i := 0; i < 100; i++ {
		var c *amqp.Connection
		if c, err = amqp.Dial(os.Getenv("AMQP_URL")); err == nil {
			channel, err := c.Channel()
			must(err)
			return c, channel
		}
		time.Sleep(100 * time.Millisecond)
	}
	panic(err)
}

func await(deliveries <-chan amqp.Delivery) amqp.Delivery {
	select {
	case d, open := <-deliveries:
		check(open, "the consumer's channel is closed")
		return d
	case <-time.After(10 * time.Second):
		panic("no delivery")
	}
}

func get(channel *amqp.Channel, queue string) amqp.Delivery {
	for i := 0; i < 200; i++ {
		d, found, err := channel.Get(queue, false)
		must(err)
		if found {
			return d
		}
		time.Sleep(50 * time.Millisecond)
	}
	panic("no message in " + queue)
}

// Publishes with a confirm, and waits for it.
func publish(channel *amqp.Channel, exchange, key string, message amqp.Publishing) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, false, false, message)
	must(err)
	done := make(chan bool, 1)
	go func() { done <- confirm.Wait() }()
	select {
	case acked := <-done:
		check(acked, "nacked")
	case <-ctx.Done():
		panic("no confirm")
	}
}

func main() {
	connection, channel := connect()
	exchange, work, dead := prefix+".x", prefix+".work", prefix+".dead"
	arguments := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}

	behaviour("declare", func() {
		for i := 0; i < 2; i++ {
			must(channel.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
			_, err := channel.QueueDeclare(work, true, false, false, false, arguments)
			must(err)
			_, err = channel.QueueDeclare(dead, true, false, false, false, nil)
			must(err)
		}
		other, err := connection.Channel()
		must(err)
		_, err = other.QueueDeclarePassive(prefix+".missing", true, false, false, false, nil)
		e, is := err.(*amqp.Error)
		check(is && e.Code == 404, err)
		_, err = channel.QueueDeclarePassive(work, true, false, false, false, nil)
		must(err)
	})
	behaviour("bind", func() { must(channel.QueueBind(work, "order.*", exchange, false, nil)) })
	behaviour("confirm", func() {
		must(channel.Confirm(false))
		for i := 0; i < 10; i++ {
			publish(channel, exchange, "order.new", amqp.Publishing{Body: []byte(fmt.Sprint("m", i)), DeliveryMode: amqp.Persistent,
				MessageId: fmt.Sprint("id-", i), Headers: amqp.Table{"n": int32(i), "text": "ü"}})
		}
	})
	behaviour("return", func() {
		returns := channel.NotifyReturn(make(chan amqp.Return, 1))
		must(channel.PublishWithContext(context.Background(), "", prefix+".nobody", true, false, amqp.Publishing{Body: []byte("x")}))
		select {
		case r := <-returns:
			check(r.ReplyCode == 312, r)
		case <-time.After(10 * time.Second):
			panic("not returned")
		}
	})

	var messages []amqp.Delivery
	var deliveries <-chan amqp.Delivery
	consuming, err := connection.Channel()
	must(err)
	behaviour("consume", func() {
		must(consuming.Qos(10, 0, false))
		deliveries, err = consuming.Consume(work, "", false, false, false, false, nil)
		must(err)
		for i := 0; i < 10; i++ {
			d := await(deliveries)
			check(string(d.Body) == fmt.Sprint("m", i), string(d.Body))
			check(d.Headers["n"] == int32(i) && d.Headers["text"] == "ü" && d.MessageId == fmt.Sprint("id-", i), d.Headers)
			messages = append(messages, d)
		}
	})
	behaviour("ack", func() { must(messages[5].Ack(true)) })
	behaviour("requeue", func() {
		must(messages[6].Nack(false, true))
		d := await(deliveries)
		check(string(d.Body) == "m6" && d.Redelivered, string(d.Body), d.Redelivered)
		must(d.Ack(false))
	})
	behaviour("reject", func() {
		must(messages[7].Reject(false))
		d := get(channel, dead)
		death := d.Headers["x-death"].([]interface{})[0].(amqp.Table)
		check(string(d.Body) == "m7" && death["queue"] == work && death["reason"] == "rejected" && death["count"] == int64(1), death)
		must(d.Ack(false))
		must(messages[8].Ack(false))
	})
	behaviour("big", func() {
		body := bytes.Repeat([]byte("0123456789"), 30000)
		publish(channel, "", dead, amqp.Publishing{Body: body})
		d := get(channel, dead)
		check(bytes.Equal(d.Body, body), len(d.Body))
		must(d.Ack(false))
	})
	behaviour("reconnect", func() {
		for i := 0; i < 5; i++ {
			publish(channel, exchange, "order.new", amqp.Publishing{Body: []byte(fmt.Sprint("r", i)), DeliveryMode: amqp.Persistent})
		}
		closed := connection.NotifyClose(make(chan *amqp.Error, 1))
		fmt.Println("restart")
		bufio.NewReader(os.Stdin).ReadString('\n')
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			panic("the loss of the connection was not seen")
		}
		connection, channel = connect()
		first := get(channel, work)
		check(string(first.Body) == "m9" && first.Redelivered, string(first.Body), first.Redelivered)
		must(first.Ack(false))
		for i := 0; i < 5; i++ {
			d := get(channel, work)
			check(string(d.Body) == fmt.Sprint("r", i), string(d.Body))
			must(d.Ack(false))
		}
	})
	must(connection.Close())
}
