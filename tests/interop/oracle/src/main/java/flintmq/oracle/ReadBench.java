package flintmq.oracle;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/** Reads every message of a store by queue offset, over and over, raw and decoded, and reports the rates. */
final class ReadBench {

    private ReadBench() {
    }

    static void run(Oracle.Args args) throws Exception {
        DefaultMessageStore store = Oracle.load(args.store(), args.config());
        store.start();
        Oracle.awaitDispatch(store);
        int max = args.integer("max", 32);
        int rounds = args.integer("rounds", 5);
        for (boolean decode : new boolean[] {false, true}) {
            long[] pass = pass(store, max, decode); // the first warms the compiler up
            double[] nanos = new double[rounds];
            double[] cpu = new double[rounds];
            for (int round = 0; round < rounds; round++) {
                long began = System.nanoTime();
                long cpuBegan = cpu();
                pass = pass(store, max, decode);
                nanos[round] = (System.nanoTime() - began) / (double) pass[0];
                cpu[round] = (cpu() - cpuBegan) / (double) pass[0];
            }
            Arrays.sort(nanos);
            Arrays.sort(cpu);
            Oracle.emit(Oracle.row("op", "readbench", "decode", decode, "max", max, "messages", pass[0],
                "bytes", pass[1], "ns_per_message", nanos[rounds / 2], "cpu_ns_per_message", cpu[rounds / 2]));
        }
        store.shutdown();
    }

    /** Single messages at random queue offsets of the first part of every queue; microseconds of each get. */
    static void cold(Oracle.Args args) throws Exception {
        DefaultMessageStore store = Oracle.load(args.store(), args.config());
        store.start();
        Oracle.awaitDispatch(store);
        int count = args.integer("count", 1000);
        int percent = args.integer("percent", 100);
        List<Object[]> queues = new ArrayList<>();
        for (Map.Entry<String, ConcurrentMap<Integer, ConsumeQueueInterface>> topic : store.getConsumeQueueTable().entrySet()) {
            for (int queue : topic.getValue().keySet()) {
                long end = store.getMaxOffsetInQueue(topic.getKey(), queue) * percent / 100;
                if (end > 0) {
                    queues.add(new Object[] {topic.getKey(), queue, end});
                }
            }
        }
        Random random = new Random(args.integer("seed", 19));
        long bytes = 0;
        long began = System.nanoTime();
        for (int i = 0; i < count; i++) {
            Object[] queue = queues.get(random.nextInt(queues.size()));
            long offset = (long) (random.nextDouble() * (long) queue[2]);
            GetMessageResult result = store.getMessage("bench", (String) queue[0], (int) queue[1], offset, 1, null);
            bytes += MessageDecoder.decode(result.getMessageBufferList().get(0), true, false).getBody().length;
            result.release();
        }
        double micros = (System.nanoTime() - began) / 1000.0 / count;
        Oracle.emit(Oracle.row("op", "coldbench", "count", count, "bytes", bytes, "us_per_get", micros));
        store.shutdown();
    }

    private static long cpu() {
        return java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    /** One pass over all queues; messages and bytes seen. */
    private static long[] pass(DefaultMessageStore store, int max, boolean decode) throws Exception {
        long messages = 0;
        long bytes = 0;
        for (Map.Entry<String, ConcurrentMap<Integer, ConsumeQueueInterface>> topic : store.getConsumeQueueTable().entrySet()) {
            for (int queue : topic.getValue().keySet()) {
                long offset = store.getMinOffsetInQueue(topic.getKey(), queue);
                long end = store.getMaxOffsetInQueue(topic.getKey(), queue);
                while (offset < end) {
                    GetMessageResult result = store.getMessage("bench", topic.getKey(), queue, offset, max, null);
                    if (result.getMessageBufferList().isEmpty()) {
                        throw new IllegalStateException(result.getStatus() + " at " + topic.getKey() + " " + queue + " " + offset);
                    }
                    for (ByteBuffer buffer : result.getMessageBufferList()) {
                        if (decode) {
                            MessageExt message = MessageDecoder.decode(buffer, true, false);
                            bytes += message.getBody().length;
                        } else {
                            bytes += buffer.remaining();
                        }
                        messages++;
                    }
                    offset = result.getNextBeginOffset();
                    result.release();
                }
            }
        }
        return new long[] {messages, bytes};
    }
}
