package flintmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.net.SocketAddress;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import org.apache.spark.TaskContext;

/**
 * One connection to the Python side; as a channel, the Arrow stream that comes by it. Thread: one.
 *
 * <p>What is sent has a head of four bytes: above zero, the length of a JSON text; below, that of a piece of an Arrow
 * stream; zero means "I live". The Python side says so each second while it works, so a silence of ten means that it
 * hangs. Who waits here ends when its task is killed.
 */
final class Line implements ReadableByteChannel {
    private static final int LONGEST = 64 << 20;
    private static final int TICK = 500; // milliseconds
    private static final int SILENT_TICKS = 20; // ticks are counted, not time: a machine that slept was not silent

    final PythonSide python;
    final long opened = System.nanoTime();
    private final Selector selector;
    private final SocketChannel channel;
    private final SelectionKey key;
    private int left; // bytes of the piece of the Arrow stream that are not read yet
    private long received; // bytes of the Arrow stream

    Line(PythonSide python, SocketAddress address) throws IOException {
        this.python = python;
        channel = SocketChannel.open(address);
        selector = Selector.open();
        channel.configureBlocking(false);
        key = channel.register(selector, 0);
    }

    void send(JsonNode message) {
        try {
            byte[] text = PythonSide.JSON.writeValueAsBytes(message);
            ByteBuffer buffer = ByteBuffer.allocate(4 + text.length);
            buffer.putInt(text.length).put(text).flip();
            while (buffer.hasRemaining()) {
                if (channel.write(buffer) == 0) await(SelectionKey.OP_WRITE);
            }
        } catch (IOException error) {
            // Spark knows by the kind whether it was stopped.
            if (error instanceof InterruptedIOException || error instanceof ClosedChannelException) throw new UncheckedIOException(error);
            throw new UncheckedIOException(new EOFException("the Python side of flintmq takes no request: " + error.getMessage()));
        }
    }

    /** The next message; an error that the Python side tells is thrown with its words. */
    JsonNode answer() {
        try {
            return message(head());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A field of a message, or null. (The cast is for Janino, which sees the method of the interface.) */
    static JsonNode field(JsonNode message, String name) {
        return (JsonNode) message.get(name);
    }

    /** Reads the Arrow stream. A message in its place is an error that the Python side tells. */
    @Override
    public int read(ByteBuffer into) throws IOException {
        if (left == 0) {
            int head = head();
            if (head > 0) throw new IOException("the Python side of flintmq sent no rows, but " + message(head));
            left = -head;
        }
        int end = into.limit();
        if (into.remaining() > left) into.limit(into.position() + left);
        int found = some(into);
        into.limit(end);
        left -= found;
        received += found;
        return found;
    }

    long received() {
        return received;
    }

    /** Whether the next request can be sent by it: the other side lives, and has nothing to say. */
    boolean rests() {
        received = 0;
        key.interestOps(SelectionKey.OP_READ);
        try {
            return selector.selectNow() == 0;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private int head() throws IOException {
        int head = 0;
        while (head == 0) head = whole(4).getInt();
        return head;
    }

    private JsonNode message(int length) throws IOException {
        if (length < 2 || length > LONGEST) throw garbage(length);
        JsonNode found = PythonSide.JSON.readTree(whole(length).array());
        JsonNode error = field(found, "error");
        if (error != null) throw new IllegalArgumentException(field(found, "kind").asText() + ": " + error.asText());
        return found;
    }

    private static IOException garbage(int head) {
        return new IOException("the Python side of flintmq sent no message: it began with " + head);
    }

    private ByteBuffer whole(int count) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(count);
        while (buffer.hasRemaining()) some(buffer);
        buffer.flip();
        return buffer;
    }

    /** Reads what there is, one byte at least. */
    private int some(ByteBuffer into) throws IOException {
        int found;
        try {
            while ((found = channel.read(into)) == 0) await(SelectionKey.OP_READ);
        } catch (SocketException error) {
            found = -1;
        }
        if (found < 0) throw new EOFException("the Python side of flintmq ended before its answer was complete");
        return found;
    }

    private void await(int what) throws IOException {
        key.interestOps(what);
        int ticks = 0;
        while (selector.select(TICK) == 0) {
            TaskContext task = TaskContext.get();
            if (task != null) task.killTaskIfInterrupted();
            if (Thread.currentThread().isInterrupted()) throw new InterruptedIOException("interrupted while the Python side of flintmq worked");
            if (++ticks < SILENT_TICKS) continue;
            python.giveUp();
            throw new IOException("the Python side of flintmq has been silent for ten seconds: it hangs, and was ended; the next query starts another");
        }
        selector.selectedKeys().clear();
    }

    @Override
    public boolean isOpen() {
        return channel.isOpen();
    }

    @Override
    public void close() {
        try {
            selector.close();
            channel.close();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
