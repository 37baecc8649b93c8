// RabbitMQ's client for Java, whose automatic recovery finds back by itself.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

public class Main {
    interface Step {
        void run() throws Exception;
    }

    static void behaviour(String name, Step step) {
        try {
            step.run();
        } catch (Throwable e) {
            String why = e.getCause() == null ? e.toString() : e + ", " + e.getCause();
            System.out.println("not ok " + name + ": " + why.replace('\n', ' '));
            e.printStackTrace();
            System.exit(1);
        }
        System.out.println("ok " + name);
    }

    static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(String.valueOf(what));
        }
    }

    static GetResponse get(Channel channel, String queue) throws Exception {
        for (int i = 0; i < 200; i++) {
            GetResponse got = channel.basicGet(queue, false);
            if (got != null) {
                return got;
            }
            Thread.sleep(50);
        }
        throw new AssertionError("no message in " + queue);
    }

    static class Consumer extends DefaultConsumer {
        final LinkedBlockingQueue<Delivery> got = new LinkedBlockingQueue<>();

        Consumer(Channel channel) {
            super(channel);
        }

        @Override
        public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) {
            got.add(new Delivery(envelope, properties, body));
        }

        Delivery take() throws InterruptedException {
            Delivery delivery = got.poll(10, TimeUnit.SECONDS);
            check(delivery != null, "no delivery");
            return delivery;
        }
    }

    public static void main(String[] arguments) throws Exception {
        String prefix = System.getenv("PREFIX");
        String exchange = prefix + ".x", work = prefix + ".work", dead = prefix + ".dead";
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(System.getenv("AMQP_URL"));
        factory.setNetworkRecoveryInterval(200);
        factory.setChannelRpcTimeout(10000);
        var connection = factory.newConnection("conformance");
        Channel channel = connection.createChannel();

        behaviour("declare", () -> {
            Map<String, Object> letters = Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead);
            for (int i = 0; i < 2; i++) {
                channel.exchangeDeclare(exchange, "topic", true);
                channel.queueDeclare(work, true, false, false, letters);
                channel.queueDeclare(dead, true, false, false, null);
            }
            try {
                connection.createChannel().queueDeclarePassive(prefix + ".missing");
                check(false, "a missing queue was found");
            } catch (IOException e) {
                var reason = (AMQP.Channel.Close) ((ShutdownSignalException) e.getCause()).getReason();
                check(reason.getReplyCode() == 404, reason);
            }
            channel.queueDeclarePassive(work);
        });
        behaviour("bind", () -> channel.queueBind(work, exchange, "order.*"));
        behaviour("confirm", () -> {
            channel.confirmSelect();
            for (int i = 0; i < 10; i++) {
                var properties = MessageProperties.PERSISTENT_TEXT_PLAIN.builder().messageId("id-" + i)
                    .headers(Map.of("n", i, "text", "ü")).build();
                channel.basicPublish(exchange, "order.new", properties, ("m" + i).getBytes());
            }
            channel.waitForConfirmsOrDie(10000);
        });
        behaviour("return", () -> {
            AtomicInteger code = new AtomicInteger();
            channel.addReturnListener((reply, text, x, key, properties, body) -> code.set(reply));
            channel.basicPublish("", prefix + ".nobody", true, null, "x".getBytes());
            channel.waitForConfirmsOrDie(10000);
            check(code.get() == 312, code);
        });

        Channel consuming = connection.createChannel();
        consuming.basicQos(10);
        Consumer consumer = new Consumer(consuming);
        List<Delivery> messages = new ArrayList<>();
        String[] tag = new String[1];
        behaviour("consume", () -> {
            tag[0] = consuming.basicConsume(work, false, consumer);
            for (int i = 0; i < 10; i++) {
                Delivery d = consumer.take();
                check(new String(d.getBody()).equals("m" + i), new String(d.getBody()));
                Map<String, Object> headers = d.getProperties().getHeaders();
                check(headers.get("n").equals(i) && headers.get("text").toString().equals("ü"), headers);
                check(d.getProperties().getMessageId().equals("id-" + i), d.getProperties());
                messages.add(d);
            }
        });
        behaviour("ack", () -> consuming.basicAck(messages.get(5).getEnvelope().getDeliveryTag(), true));
        behaviour("requeue", () -> {
            consuming.basicNack(messages.get(6).getEnvelope().getDeliveryTag(), false, true);
            Delivery again = consumer.take();
            check(new String(again.getBody()).equals("m6") && again.getEnvelope().isRedeliver(), again.getEnvelope());
            consuming.basicAck(again.getEnvelope().getDeliveryTag(), false);
        });
        behaviour("reject", () -> {
            consuming.basicReject(messages.get(7).getEnvelope().getDeliveryTag(), false);
            GetResponse letter = get(channel, dead);
            @SuppressWarnings("unchecked")
            Map<String, Object> death = ((List<Map<String, Object>>) letter.getProps().getHeaders().get("x-death")).get(0);
            check(new String(letter.getBody()).equals("m7") && death.get("queue").toString().equals(work)
                && death.get("reason").toString().equals("rejected") && death.get("count").equals(1L), death);
            channel.basicAck(letter.getEnvelope().getDeliveryTag(), false);
            consuming.basicAck(messages.get(8).getEnvelope().getDeliveryTag(), false);
        });
        behaviour("big", () -> {
            byte[] body = new byte[300000];
            Arrays.fill(body, (byte) 'x');
            channel.basicPublish("", dead, null, body);
            channel.waitForConfirmsOrDie(10000);
            GetResponse letter = get(channel, dead);
            check(Arrays.equals(letter.getBody(), body), letter.getBody().length);
            channel.basicAck(letter.getEnvelope().getDeliveryTag(), false);
        });
        behaviour("reconnect", () -> {
            for (int i = 0; i < 5; i++) {
                channel.basicPublish(exchange, "order.new", MessageProperties.PERSISTENT_BASIC, ("r" + i).getBytes());
            }
            channel.waitForConfirmsOrDie(10000);
            consumer.got.clear(); // they were delivered to it, too, and come again
            CountDownLatch recovered = new CountDownLatch(1);
            ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
                @Override
                public void handleRecovery(Recoverable who) {
                    recovered.countDown();
                }

                @Override
                public void handleRecoveryStarted(Recoverable who) {
                }
            });
            System.out.println("restart");
            System.in.read();
            check(recovered.await(20, TimeUnit.SECONDS), "no recovery");
            List<String> bodies = new ArrayList<>();
            while (bodies.size() < 6) { // the consumer was recovered with its channel
                Delivery d = consumer.take();
                if (bodies.isEmpty() && !new String(d.getBody()).equals("m9")) {
                    continue; // was on its way before the broker was killed
                }
                bodies.add(new String(d.getBody()));
                check(bodies.size() > 1 || d.getEnvelope().isRedeliver(), "not redelivered");
                consuming.basicAck(d.getEnvelope().getDeliveryTag(), false);
            }
            check(bodies.equals(List.of("m9", "r0", "r1", "r2", "r3", "r4")), bodies);
        });
        try {
            connection.close();
        } catch (AlreadyClosedException e) {
            System.exit(1);
        }
    }
}
