package flintmq.door;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** One connection to the Python side. A message is its length in four bytes, and JSON. Thread: one. */
final class Line {
    private static final int LONGEST = 64 << 20;

    final SocketChannel channel;

    Line(SocketChannel channel) {
        this.channel = channel;
    }

    void send(byte[] message) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(4 + message.length);
        buffer.putInt(message.length).put(message).flip();
        while (buffer.hasRemaining()) channel.write(buffer);
    }

    /** The next message; an error that the Python side tells is thrown with its words. */
    JsonNode answer() {
        try {
            int length = read(4).getInt();
            if (length < 2 || length > LONGEST) throw new IOException("the Python side of flintmq sent a length of " + length);
            JsonNode found = PythonSide.JSON.readTree(read(length).array());
            JsonNode error = field(found, "error");
            if (error != null) throw new IllegalArgumentException(field(found, "kind").asText() + ": " + error.asText());
            return found;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A field of a message, or null. (The cast is for Janino, which sees the method of the interface.) */
    static JsonNode field(JsonNode message, String name) {
        return (JsonNode) message.get(name);
    }

    private ByteBuffer read(int count) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(count);
        while (buffer.hasRemaining()) {
            if (channel.read(buffer) < 0) throw new EOFException("the Python side of flintmq ended before its answer was complete");
        }
        buffer.flip();
        return buffer;
    }

    void close() {
        try {
            channel.close();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
