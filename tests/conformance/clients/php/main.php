<?php
// php-amqplib, which logs in by AMQPLAIN and asks for no heartbeats.
require_once 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

$url = parse_url(getenv('AMQP_URL'));
$prefix = getenv('PREFIX');

function behaviour($name, $what)
{
    try {
        $what();
    } catch (Throwable $e) {
        echo "not ok $name: " . str_replace("\n", ' ', get_class($e) . ': ' . $e->getMessage() . ' at line ' . $e->getLine()) . "\n";
        exit(1);
    }
    echo "ok $name\n";
}

function check($holds, $what = 'check')
{
    if (!$holds) {
        throw new Exception(is_string($what) ? $what : json_encode($what));
    }
}

function connect()
{
    global $url;
    for ($i = 0; ; $i++) {
        try {
            // Arguments: vhost, insist, login method, response, locale, connection and read timeouts.
            return new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass'], '/', false, 'AMQPLAIN', null, 'en_US',
                3.0, 10.0);
        } catch (Exception $e) {
            if ($i == 100) {
                throw $e;
            }
            usleep(100000);
        }
    }
}

function get($channel, $queue)
{
    for ($i = 0; $i < 200; $i++) {
        if ($message = $channel->basic_get($queue)) {
            return $message;
        }
        usleep(50000);
    }
    throw new Exception("no message in $queue");
}

$connection = connect();
$channel = $connection->channel();
[$exchange, $work, $dead] = ["$prefix.x", "$prefix.work", "$prefix.dead"];

behaviour('declare', function () use ($connection, $channel, $exchange, $work, $dead, $prefix) {
    for ($i = 0; $i < 2; $i++) {
        $channel->exchange_declare($exchange, 'topic', false, true, false);
        $channel->queue_declare($work, false, true, false, false, false,
            new AMQPTable(['x-dead-letter-exchange' => '', 'x-dead-letter-routing-key' => $dead]));
        $channel->queue_declare($dead, false, true, false, false);
    }
    try {
        $connection->channel()->queue_declare("$prefix.missing", true);
        check(false, 'a missing queue was found');
    } catch (AMQPProtocolChannelException $e) {
        check($e->amqp_reply_code == 404, $e->getMessage());
    }
    $channel->queue_declare($work, true);
});

behaviour('bind', function () use ($channel, $exchange, $work) {
    $channel->queue_bind($work, $exchange, 'order.*');
});

behaviour('confirm', function () use ($channel, $exchange) {
    $acked = 0;
    $channel->set_ack_handler(function () use (&$acked) { $acked++; });
    $channel->confirm_select();
    for ($i = 0; $i < 10; $i++) {
        $message = new AMQPMessage("m$i", ['delivery_mode' => 2, 'message_id' => "id-$i"]);
        $message->set('application_headers', new AMQPTable(['n' => $i, 'text' => 'ü']));
        $channel->basic_publish($message, $exchange, 'order.new');
    }
    $channel->wait_for_pending_acks(10);
    check($acked == 10, "$acked acks");
});

behaviour('return', function () use ($channel, $prefix) {
    $code = 0;
    $channel->set_return_listener(function ($reply_code) use (&$code) { $code = $reply_code; });
    $channel->basic_publish(new AMQPMessage('x'), '', "$prefix.nobody", true);
    $channel->wait_for_pending_acks_returns(10);
    check($code == 312, "code $code");
});

$consuming = $connection->channel();
$messages = [];
$take = function ($n) use ($consuming, &$messages) {
    while (count($messages) < $n) {
        $consuming->wait(null, false, 10);
    }
};

behaviour('consume', function () use ($consuming, $work, $take, &$messages) {
    $consuming->basic_qos(0, 10, false);
    $consuming->basic_consume($work, '', false, false, false, false, function ($message) use (&$messages) { $messages[] = $message; });
    $take(10);
    foreach ($messages as $i => $message) {
        check($message->getBody() == "m$i", $message->getBody());
        check($message->get('application_headers')->getNativeData() == ['n' => $i, 'text' => 'ü'], 'headers');
        check($message->get('message_id') == "id-$i", 'message_id');
    }
});

behaviour('ack', function () use (&$messages) {
    $messages[5]->ack(true);
});

behaviour('requeue', function () use ($take, &$messages) {
    $messages[6]->nack(true);
    $take(11);
    check($messages[10]->getBody() == 'm6' && $messages[10]->isRedelivered());
    $messages[10]->ack();
});

behaviour('reject', function () use ($channel, $work, $dead, &$messages) {
    $messages[7]->reject(false);
    $letter = get($channel, $dead);
    $death = $letter->get('application_headers')->getNativeData()['x-death'][0];
    check($letter->getBody() == 'm7' && [$death['queue'], $death['reason'], $death['count']] == [$work, 'rejected', 1], $death);
    $letter->ack();
    $messages[8]->ack();
});

behaviour('big', function () use ($channel, $dead) {
    $body = str_repeat('0123456789', 30000);
    $channel->basic_publish(new AMQPMessage($body), '', $dead);
    $channel->wait_for_pending_acks(10);
    $letter = get($channel, $dead);
    check($letter->getBody() === $body, 'body');
    $letter->ack();
});

behaviour('reconnect', function () use (&$connection, $channel, $exchange, $work) {
    for ($i = 0; $i < 5; $i++) {
        $channel->basic_publish(new AMQPMessage("r$i", ['delivery_mode' => 2]), $exchange, 'order.new');
    }
    $channel->wait_for_pending_acks(10);
    echo "restart\n";
    fgets(STDIN);
    try {
        $channel->queue_declare($work, true);
        check(false, 'the connection outlived the broker');
    } catch (PhpAmqpLib\Exception\AMQPExceptionInterface $e) {
    }
    $connection = connect();
    $channel = $connection->channel();
    $first = get($channel, $work);
    check($first->getBody() == 'm9' && $first->isRedelivered(), $first->getBody());
    $first->ack();
    for ($i = 0; $i < 5; $i++) {
        $message = get($channel, $work);
        check($message->getBody() == "r$i", $message->getBody());
        $message->ack();
    }
});
$connection->close();
