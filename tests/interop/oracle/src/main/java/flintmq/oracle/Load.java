package flintmq.oracle;

import com.alibaba.fastjson2.JSONObject;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Load of a stock producer and of a stock push consumer, for the bench. Each call makes its clients and ends them: no
 * connection stays to a broker that is stopped while another one is measured.
 */
@SuppressWarnings("deprecation") // bounds of queues, of a producer
final class Load {

    private static final int FIRST = -1; // the number of the message that says that a consumer is ready
    private static final long STORED_S = 10;
    private static final long CONSUMED_S = 100;

    private Load() {
    }

    /**
     * Sends {@code count} bodies of {@code size} bytes, {@code window} of them under way; with 0 one after the other.
     * What was acknowledged, and how many the topic has then beyond those that it had {@code before}.
     */
    static Map<String, Object> send(JSONObject op, String instance) throws Exception {
        DefaultMQProducer producer = producer(op, instance);
        try {
            String topic = op.getString("topic");
            int window = op.getIntValue("window");
            byte[] body = new byte[op.getIntValue("size")];
            Arrays.fill(body, (byte) 'x');
            AtomicInteger acknowledged = new AtomicInteger();
            Semaphore room = new Semaphore(window);
            SendCallback callback = new SendCallback() {
                public void onSuccess(SendResult result) {
                    count(result, acknowledged);
                    room.release();
                }

                public void onException(Throwable failure) {
                    room.release();
                }
            };
            long began = System.nanoTime();
            for (int n = 0; n < op.getIntValue("count"); n++) {
                Message message = new Message(topic, "TagA", "k" + n, body);
                if (window == 0) {
                    count(producer.send(message), acknowledged);
                } else {
                    room.acquire();
                    producer.send(message, callback);
                }
            }
            room.acquire(window);
            double seconds = (System.nanoTime() - began) / 1e9;
            long before = op.getLongValue("before");
            return Oracle.row("acknowledged", acknowledged.get(), "seconds", seconds,
                "stored", stored(producer, topic, before + acknowledged.get()) - before);
        } finally {
            producer.shutdown();
        }
    }

    private static void count(SendResult result, AtomicInteger acknowledged) {
        if (result.getSendStatus() == SendStatus.SEND_OK) {
            acknowledged.incrementAndGet();
        }
    }

    /** Consumes a topic of {@code count} messages in a new group: seconds from the first one to the last. */
    static Map<String, Object> drain(JSONObject op, String instance) throws Exception {
        Map<Integer, BitSet> seen = new ConcurrentHashMap<>();
        AtomicInteger left = new AtomicInteger(op.getIntValue("count"));
        AtomicLong first = new AtomicLong();
        CountDownLatch all = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = consumer(op, instance, message -> {
            first.compareAndSet(0, System.nanoTime());
            BitSet ofQueue = seen.computeIfAbsent(message.getQueueId(), queue -> new BitSet());
            boolean again;
            synchronized (ofQueue) {
                again = ofQueue.get((int) message.getQueueOffset());
                ofQueue.set((int) message.getQueueOffset());
            }
            if (!again && left.decrementAndGet() == 0) {
                all.countDown();
            }
        });
        try {
            all.await(CONSUMED_S, TimeUnit.SECONDS);
            double seconds = (System.nanoTime() - first.get()) / 1e9;
            return Oracle.row("messages", op.getIntValue("count") - left.get(), "seconds", seconds);
        } finally {
            consumer.shutdown();
        }
    }

    /**
     * Sends {@code count} messages to a topic that nobody has made, one each {@code pause_ms}: microseconds from before
     * each send until a push consumer has the message.
     */
    static Map<String, Object> pace(JSONObject op, String instance) throws Exception {
        String topic = op.getString("topic");
        int count = op.getIntValue("count");
        AtomicLongArray took = new AtomicLongArray(count);
        CountDownLatch ready = new CountDownLatch(1);
        CountDownLatch all = new CountDownLatch(count);
        DefaultMQProducer producer = producer(op, instance);
        DefaultMQPushConsumer consumer = null;
        try {
            producer.send(numbered(topic, FIRST));
            stored(producer, topic, 1); // else the consumer finds no such topic, and asks again after 30 s
            consumer = consumer(op, instance, message -> {
                long now = System.nanoTime();
                ByteBuffer body = ByteBuffer.wrap(message.getBody());
                int number = body.getInt();
                if (number == FIRST) {
                    ready.countDown();
                } else if (took.compareAndSet(number, 0, now - body.getLong())) {
                    all.countDown();
                }
            });
            if (!ready.await(CONSUMED_S, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the consumer got nothing");
            }
            Thread.sleep(1000);
            long began = System.nanoTime();
            for (int n = 0; n < count; n++) {
                LockSupport.parkNanos(began + n * op.getLongValue("pause_ms") * 1_000_000 - System.nanoTime());
                producer.send(numbered(topic, n));
            }
            all.await(STORED_S, TimeUnit.SECONDS);
            long[] sorted = new long[count];
            Arrays.setAll(sorted, took::get);
            Arrays.sort(sorted);
            return Oracle.row("messages", count - all.getCount(), "p50_us", sorted[count / 2] / 1000.0,
                "p99_us", sorted[count * 99 / 100] / 1000.0);
        } finally {
            if (consumer != null) {
                consumer.shutdown();
            }
            producer.shutdown();
        }
    }

    /** A body of 100 bytes that says when it was made. */
    private static Message numbered(String topic, int number) {
        return new Message(topic, ByteBuffer.allocate(100).putInt(number).putLong(System.nanoTime()).array());
    }

    /** How many messages a topic has, once these are so many or some seconds are over: queues follow the log. */
    private static long stored(DefaultMQProducer producer, String topic, long wanted) throws Exception {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(STORED_S);
        while (true) {
            long found = 0;
            try {
                for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
                    found += producer.maxOffset(queue);
                }
            } catch (MQClientException unknown) {
                found = 0; // a broker of Java tells the name server of a new topic a moment later
            }
            if (found >= wanted || System.nanoTime() > limit) {
                return found;
            }
            Thread.sleep(10);
        }
    }

    /** A producer that sends nothing twice: a broker that refuses is found out. */
    private static DefaultMQProducer producer(JSONObject op, String instance) throws MQClientException {
        DefaultMQProducer producer = new DefaultMQProducer("Loading");
        producer.setNamesrvAddr(op.getString("names"));
        producer.setInstanceName(instance);
        producer.setSendMsgTimeout(30_000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.start();
        return producer;
    }

    private static DefaultMQPushConsumer consumer(JSONObject op, String instance, Consumer<MessageExt> got)
        throws MQClientException {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(op.getString("group"));
        consumer.setNamesrvAddr(op.getString("names"));
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(op.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(got);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }
}
