package flintmq.door;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Arrays;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;

/**
 * The Python process of this JVM, which plans and scans: `python -m flintmq.spark.door.serve`.
 *
 * <p>It is started when first asked and ends with the JVM: it reads its standard input to the end. By that pipe it gets the
 * token, which nobody else knows; it answers where its socket is. Thread: any.
 */
final class PythonSide {
    static final ObjectMapper JSON = new ObjectMapper();
    private static PythonSide running;

    private final Process process;
    private final OutputStream pipe; // open as long as the JVM lives
    private final UnixDomainSocketAddress address;
    private final String token;

    private PythonSide() throws IOException {
        byte[] secret = new byte[32];
        new SecureRandom().nextBytes(secret);
        StringBuilder hex = new StringBuilder();
        for (byte one : secret) hex.append(String.format("%02x", new Object[] {one}));
        token = hex.toString();
        ProcessBuilder builder = new ProcessBuilder(Arrays.asList(new String[] {python(), "-m", "flintmq.spark.door.serve"}));
        builder.redirectError(ProcessBuilder.Redirect.INHERIT);
        process = builder.start();
        pipe = process.getOutputStream();
        pipe.write((token + "\n").getBytes(StandardCharsets.US_ASCII));
        pipe.flush();
        BufferedReader answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String path = answers.readLine();
        if (path == null) throw new IOException(python() + " did not start flintmq.spark.door.serve; its error is above");
        address = UnixDomainSocketAddress.of(path);
    }

    /** The interpreter that Spark's own workers would be. */
    private static String python() {
        SparkConf conf = SparkEnv.get().conf();
        String named = conf.get("spark.pyspark.python", System.getenv("PYSPARK_PYTHON"));
        return named == null ? "python3" : named;
    }

    static synchronized PythonSide get() {
        try {
            if (running == null || !running.process.isAlive()) running = new PythonSide();
            return running;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Sends a request on a line of its own and reads the head of the answer; the caller closes the line. */
    Line ask(ObjectNode request) {
        try {
            SocketChannel channel = SocketChannel.open(address);
            request.put("token", token);
            Line line = new Line(channel);
            line.send(JSON.writeValueAsBytes(request));
            return line;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Asks, and closes the line. */
    JsonNode answer(ObjectNode request) {
        Line line = ask(request);
        try {
            return line.answer();
        } finally {
            line.close();
        }
    }
}
