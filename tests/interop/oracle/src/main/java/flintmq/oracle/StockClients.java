package flintmq.oracle;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Stock clients of somebody else's broker: each operation is a line of stdin and gets one answer line. Lines with "as"
 * are no answers: a message that a push consumer of that name got.
 */
@SuppressWarnings("deprecation") // the pull consumer is, and is what many programs use
final class StockClients {

    private final Map<String, DefaultMQPushConsumer> pushed = new HashMap<>();
    private final Map<String, DefaultMQPullConsumer> pulling = new HashMap<>();
    private final Map<String, DefaultMQProducer> producers = new HashMap<>();
    private final Map<String, TransactionMQProducer> senders = new HashMap<>();
    private int made;

    void serve(BufferedReader lines) throws Exception {
        for (String line; (line = lines.readLine()) != null; ) {
            Map<String, Object> answer;
            try {
                answer = execute(JSON.parseObject(line));
            } catch (Exception failure) {
                answer = Oracle.row("error", words(failure));
            }
            say(answer);
        }
        pushed.values().forEach(DefaultMQPushConsumer::shutdown); // which commits the groups' offsets
        senders.values().forEach(TransactionMQProducer::shutdown);
    }

    private static void say(Map<String, Object> row) {
        Oracle.emit(row);
        Oracle.OUT.flush();
    }

    private static String words(Throwable failure) {
        return failure + (failure.getCause() == null ? "" : "; " + words(failure.getCause()));
    }

    private Map<String, Object> execute(JSONObject op) throws Exception {
        String topic = op.getString("topic");
        switch (op.getString("op")) {
            case "consume" -> consume(op);
            case "stop" -> pushed.remove(op.getString("as")).shutdown();
            case "pull" -> {
                PullResult found = puller(op).pull(queue(op), op.containsKey("tags") ? op.getString("tags") : "*",
                    op.getLongValue("offset"), op.getIntValue("count", 32));
                return Oracle.row("status", found.getPullStatus().name(), "next", found.getNextBeginOffset(),
                    "min", found.getMinOffset(), "max", found.getMaxOffset(), "messages", facts(found.getMsgFoundList()));
            }
            case "bounds" -> {
                return Oracle.row("min", puller(op).minOffset(queue(op)), "max", puller(op).maxOffset(queue(op)),
                    "earliest", puller(op).earliestMsgStoreTime(queue(op)));
            }
            case "offset_by_time" -> {
                return Oracle.row("offset", puller(op).searchOffset(queue(op), op.getLongValue("timestamp")));
            }
            case "committed" -> {
                return Oracle.row("offset", puller(op).fetchConsumeOffset(queue(op), true));
            }
            case "query" -> {
                return Oracle.row("messages", facts(producer(op).queryMessage(topic, op.getString("key"), 64,
                    op.getLongValue("begin"), Long.MAX_VALUE).getMessageList()));
            }
            case "view" -> {
                return Oracle.row("messages", facts(List.of(producer(op).viewMessage(topic, op.getString("id")))));
            }
            case "send" -> {
                return Oracle.row("sent", send(op));
            }
            case "transact" -> {
                return Oracle.row("sent", transact(op));
            }
            case "join" -> sender(op);
            case "leave" -> senders.remove(op.getString("names") + " " + op.getString("group")).shutdown();
            case "admin" -> {
                return Oracle.row("text", admin(op));
            }
            case "load" -> {
                return Load.send(op, instance());
            }
            case "drain" -> {
                return Load.drain(op, instance());
            }
            case "pace" -> {
                return Load.pace(op, instance());
            }
            default -> throw new IllegalArgumentException("unknown operation");
        }
        return Oracle.row("status", "OK");
    }

    /** Sends bodies one by one, as one batch, or all at once without waiting; what was acknowledged. */
    private List<Map<String, Object>> send(JSONObject op) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (Object body : op.getJSONArray("bodies")) {
            Message message = new Message(op.getString("topic"), op.getString("tags"), op.getString("keys"),
                ((String) body).getBytes(StandardCharsets.UTF_8));
            message.setDelayTimeLevel(op.getIntValue("level", 0));
            messages.add(message);
        }
        DefaultMQProducer producer = producer(op);
        String how = op.containsKey("how") ? op.getString("how") : "sync";
        List<Map<String, Object>> sent = Collections.synchronizedList(new ArrayList<>());
        switch (how) {
            case "batch" -> sent.add(told(producer.send(messages), "batch"));
            case "oneway" -> {
                for (Message message : messages) {
                    producer.sendOneway(message);
                }
            }
            case "async" -> {
                CountDownLatch left = new CountDownLatch(messages.size());
                for (Message message : messages) {
                    String body = new String(message.getBody(), StandardCharsets.UTF_8);
                    producer.send(message, new SendCallback() {
                        public void onSuccess(SendResult result) {
                            sent.add(told(result, body));
                            left.countDown();
                        }

                        public void onException(Throwable failure) {
                            left.countDown();
                        }
                    });
                }
                left.await(60, TimeUnit.SECONDS);
            }
            default -> {
                for (Message message : messages) {
                    sent.add(told(producer.send(message), new String(message.getBody(), StandardCharsets.UTF_8)));
                }
            }
        }
        return sent;
    }

    /** Sends each body in a transaction that ends as the body's last word says; what was acknowledged. */
    private List<Map<String, Object>> transact(JSONObject op) throws Exception {
        List<Map<String, Object>> sent = new ArrayList<>();
        for (Object body : op.getJSONArray("bodies")) {
            Message message = new Message(op.getString("topic"), op.getString("tags"), op.getString("keys"),
                ((String) body).getBytes(StandardCharsets.UTF_8));
            sent.add(told(sender(op).sendMessageInTransaction(message, null), (String) body));
        }
        return sent;
    }

    /** A producer of a group, which is asked as its lines say: "x c" commits, "x r" rolls back, "x uc" commits once it
     * is asked, "x ur" rolls back then, "x u" never knows. */
    private TransactionMQProducer sender(JSONObject op) throws Exception {
        String group = op.getString("group");
        String name = op.getString("names") + " " + group;
        if (!senders.containsKey(name)) {
            TransactionMQProducer producer = new TransactionMQProducer(group);
            producer.setNamesrvAddr(op.getString("names"));
            producer.setInstanceName(instance());
            producer.setHeartbeatBrokerInterval(1000);
            producer.setSendMsgTimeout(60_000); // a second attempt would be a second transaction
            producer.setTransactionListener(new TransactionListener() {
                public LocalTransactionState executeLocalTransaction(Message message, Object nothing) {
                    return state(message, "");
                }

                public LocalTransactionState checkLocalTransaction(MessageExt message) {
                    Map<String, Object> row = facts(message);
                    row.put("as", group);
                    row.put("text", new String(message.getBody(), StandardCharsets.UTF_8));
                    say(row);
                    return state(message, "u");
                }
            });
            producer.start();
            if (op.getString("op").equals("join")) { // without a message it knows no broker, and sends no heartbeat
                producer.send(new Message(op.getString("topic"), "joined".getBytes(StandardCharsets.UTF_8)));
            }
            senders.put(name, producer);
        }
        return senders.get(name);
    }

    private static LocalTransactionState state(Message message, String asked) {
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        String word = body.substring(body.lastIndexOf(' ') + 1);
        if (word.equals(asked + "c")) {
            return LocalTransactionState.COMMIT_MESSAGE;
        }
        return word.equals(asked + "r") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
    }

    private static Map<String, Object> told(SendResult result, String body) {
        return Oracle.row("status", result.getSendStatus().name(), "id", result.getMsgId(), "body", body,
            "offsetId", result.getOffsetMsgId(), "queue", result.getMessageQueue().getQueueId(),
            "offset", result.getQueueOffset());
    }

    /**
     * A push consumer; it is called as each of its lines. `refuse`: how often it wants each message again. `assigned`:
     * the broker assigns its queues, and says whether it pops.
     */
    private void consume(JSONObject op) throws Exception {
        String as = op.getString("as");
        int refuse = op.getIntValue("refuse", 0);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(op.getString("group"));
        consumer.setNamesrvAddr(op.getString("names"));
        consumer.setInstanceName(instance());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (op.getBooleanValue("assigned")) {
            consumer.setClientRebalance(false);
        }
        if (op.containsKey("invisible")) {
            consumer.setPopInvisibleTime(op.getLongValue("invisible"));
        }
        for (Object topic : op.getJSONArray("topics")) {
            consumer.subscribe((String) topic, op.containsKey("sql") ? MessageSelector.bySql(op.getString("sql"))
                : MessageSelector.byTag(op.containsKey("tags") ? op.getString("tags") : "*"));
        }
        if (op.containsKey("most")) {
            consumer.setMaxReconsumeTimes(op.getIntValue("most"));
        }
        MessageListenerConcurrently listener = (messages, context) -> {
            boolean again = false;
            for (MessageExt message : messages) {
                Map<String, Object> row = facts(message);
                row.put("as", as);
                say(row);
                again |= message.getReconsumeTimes() < refuse;
            }
            return again ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
        MessageListenerOrderly orderly = (messages, context) -> {
            context.setSuspendCurrentQueueTimeMillis(100);
            return listener.consumeMessage(messages, null) == ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
        };
        if (op.getBooleanValue("orderly")) {
            consumer.registerMessageListener(orderly);
        } else {
            consumer.registerMessageListener(listener);
        }
        consumer.start();
        pushed.put(as, consumer);
    }

    /** What mqadmin prints for these words. */
    private static String admin(JSONObject op) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        PrintStream caught = new PrintStream(text, true, StandardCharsets.UTF_8);
        System.setOut(caught);
        System.setErr(caught);
        try {
            System.setProperty("rocketmq.namesrv.addr", op.getString("names"));
            MQAdminStartup.main0(op.getList("words", String.class).toArray(String[]::new), null);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return text.toString(StandardCharsets.UTF_8);
    }

    private MessageQueue queue(JSONObject op) throws Exception {
        for (MessageQueue queue : puller(op).fetchSubscribeMessageQueues(op.getString("topic"))) {
            if (queue.getQueueId() == op.getIntValue("queue")) {
                return queue;
            }
        }
        throw new IllegalArgumentException("no such queue");
    }

    private DefaultMQPullConsumer puller(JSONObject op) throws Exception {
        String group = op.containsKey("group") ? op.getString("group") : "Pulling";
        String name = op.getString("names") + " " + group;
        if (!pulling.containsKey(name)) {
            DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
            consumer.setNamesrvAddr(op.getString("names"));
            consumer.setInstanceName(instance());
            consumer.start();
            pulling.put(name, consumer);
        }
        return pulling.get(name);
    }

    private DefaultMQProducer producer(JSONObject op) throws Exception {
        String name = op.getString("names");
        if (!producers.containsKey(name)) {
            DefaultMQProducer producer = new DefaultMQProducer("Asking");
            producer.setNamesrvAddr(name);
            producer.setInstanceName(instance());
            producer.start();
            producers.put(name, producer);
        }
        return producers.get(name);
    }

    /** Clients of one instance name share their connections, and the name server of the first of them. */
    private String instance() {
        return ProcessHandle.current().pid() + "-" + made++;
    }

    private static List<Map<String, Object>> facts(List<MessageExt> messages) {
        List<Map<String, Object>> rows = new ArrayList<>();
        if (messages != null) {
            messages.forEach(message -> rows.add(facts(message)));
        }
        return rows;
    }

    private static Map<String, Object> facts(MessageExt message) {
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody(); // of an empty one there is none
        try {
            byte[] hash = MessageDigest.getInstance("SHA-1").digest(body);
            return Oracle.row("topic", message.getTopic(), "queue", message.getQueueId(),
                "offset", message.getQueueOffset(), "position", message.getCommitLogOffset(), "id", message.getMsgId(),
                "tags", message.getTags(), "keys", message.getKeys(), "sha1", HexFormat.of().formatHex(hash),
                "bytes", body.length, "times", message.getReconsumeTimes());
        } catch (java.security.NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
