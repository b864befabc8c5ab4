package flintmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.UnixDomainSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.PythonUtils;

/**
 * The Python process of this JVM, which plans and scans: `python -m flintmq.spark.door.serve`.
 *
 * <p>It is started when first asked and ends with the JVM: it reads its standard input to the end. By that pipe it gets the
 * token, which nobody else knows; it answers where its socket is. Thread: any.
 */
final class PythonSide {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final String WORD = "flintmq-door "; // before the path of the socket, in what the process prints
    private static final int PATIENCE = 10000; // milliseconds without a sign of life until it counts as hanging
    private static final int IDLE = 1000; // milliseconds that a line waits for the next task
    private static final long OLD = 60000000000L; // nanoseconds after which a fork gets no more tasks: it holds what it found, such as keys of a bucket
    private static final Timer CLOSING = new Timer("flintmq-lines", true);
    private static final String VERSION = version();
    private static PythonSide running;

    private final Process process;
    private final OutputStream pipe; // open as long as the JVM lives
    private final UnixDomainSocketAddress address;
    private final String token;
    private final ArrayDeque<Line> kept = new ArrayDeque<Line>(); // whose tasks have read all that they asked for
    private volatile boolean hung;

    private PythonSide(String python) throws IOException {
        byte[] secret = new byte[32];
        new SecureRandom().nextBytes(secret);
        StringBuilder hex = new StringBuilder();
        for (byte one : secret) hex.append(String.format("%02x", new Object[] {one}));
        token = hex.toString();
        ProcessBuilder builder = new ProcessBuilder(Arrays.asList(new String[] {python, "-m", "flintmq.spark.door.serve"}));
        String path = PythonUtils.sparkPythonPath();
        String users = System.getenv("PYTHONPATH");
        if (!path.isEmpty()) builder.environment().put("PYTHONPATH", users == null ? path : users + File.pathSeparator + path);
        builder.redirectError(ProcessBuilder.Redirect.INHERIT);
        process = builder.start();
        pipe = process.getOutputStream();
        pipe.write((token + "\n").getBytes(StandardCharsets.US_ASCII));
        pipe.flush();
        Runtime.getRuntime().addShutdownHook(new Thread() {
            @Override
            public void run() {
                close();
            }
        });
        address = UnixDomainSocketAddress.of(socket(python, process));
    }

    /** Lets the process end, as it does when its pipe does; one that hangs is killed. */
    private void close() {
        try {
            pipe.close();
            process.waitFor(2, TimeUnit.SECONDS);
        } catch (IOException error) {
            // It has ended before.
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        end();
    }

    /** Ends the process, which hangs; its forks end with their lines. */
    void giveUp() {
        hung = true;
        end();
    }

    /** Ends the process, and removes its socket and the directory of it, which it could not if it was killed. */
    private void end() {
        process.destroyForcibly();
        if (address == null) return; // the JVM ends before the process has said where it listens
        File socket = address.getPath().toFile();
        socket.delete();
        socket.getParentFile().delete();
    }

    /** Where the process listens: it prints empty lines while it starts, and then that. */
    private static String socket(String python, Process process) throws IOException {
        InputStream printed = process.getInputStream();
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int waited = 0; waited < PATIENCE; ) {
            boolean lives = process.isAlive();
            if (printed.available() == 0) {
                if (!lives) throw new IOException(python + " -m flintmq.spark.door.serve ended; its error is above. Is flintmq installed there?");
                sleep();
                waited += 20;
                continue;
            }
            waited = 0;
            int one = printed.read();
            if (one != '\n') {
                line.write(one);
                continue;
            }
            String found = line.toString("UTF-8");
            if (found.startsWith(WORD)) return found.substring(WORD.length());
            line.reset();
        }
        process.destroyForcibly();
        throw new IOException(python + " -m flintmq.spark.door.serve gave no sign of life for ten seconds; it was ended");
    }

    private static void sleep() throws IOException {
        try {
            Thread.sleep(20);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while flintmq.spark.door.serve started");
        }
    }

    /** The interpreter of Spark's own workers, as the driver knows it. */
    static String python() {
        SparkConf conf = SparkEnv.get().conf();
        String named = conf.get("spark.pyspark.python", System.getenv("PYSPARK_PYTHON"));
        return named == null ? "python3" : named;
    }

    private static String version() {
        InputStream found = PythonSide.class.getResourceAsStream("version");
        try {
            return new BufferedReader(new InputStreamReader(found, StandardCharsets.UTF_8)).readLine();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /**
     * The process of this JVM; a new one where it has ended, or cannot be asked any more: somebody has cleared the directory
     * of temporary files. `python`: the interpreter to start it with.
     */
    static synchronized PythonSide get(String python) {
        try {
            if (running == null || !running.process.isAlive() || !running.address.getPath().toFile().exists()) {
                if (running != null) running.end();
                running = new PythonSide(python);
            }
            return running;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** The process of the driver. */
    static PythonSide get() {
        return get(python());
    }

    /** Sends a request on a line of its own, which the caller closes. */
    Line ask(ObjectNode request) {
        Line line;
        try {
            line = new Line(this, address);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        try {
            line.send(signed(request));
            return line;
        } catch (RuntimeException error) {
            line.close();
            throw error;
        }
    }

    /**
     * Sends a request on a line that another task has left, or on a new one: a fork is a tenth of a task's time.
     *
     * <p>The fork at its other end may hold what earlier tasks made it keep, so plans and schemas are asked of new ones.
     */
    Line askForRows(ObjectNode request) {
        for (Line line = left(); line != null; line = left()) {
            boolean asked = false;
            try {
                if (line.rests()) {
                    line.send(signed(request));
                    asked = true;
                    return line;
                }
            } catch (UncheckedIOException error) {
                // Somebody has ended the fork; another one is asked.
            } finally {
                if (!asked) line.close();
            }
        }
        return ask(request);
    }

    private ObjectNode signed(ObjectNode request) {
        return request.put("token", token).put("version", VERSION);
    }

    private Line left() {
        synchronized (kept) {
            return (Line) kept.pollLast();
        }
    }

    /** Leaves a line to the next task; who comes too late finds it closed. */
    void keep(final Line line) {
        if (System.nanoTime() - line.opened > OLD) {
            line.close();
            return;
        }
        synchronized (kept) {
            kept.addLast(line);
        }
        CLOSING.schedule(new TimerTask() {
            @Override
            public void run() {
                boolean idle;
                synchronized (kept) {
                    idle = kept.remove(line);
                }
                try {
                    if (idle) line.close();
                } catch (UncheckedIOException error) {
                    // Its descriptor is gone all the same, and the timer goes on.
                }
            }
        }, IDLE);
    }

    /** Asks the process of the driver; again, once, if somebody ended it: what is asked has no effect. */
    static JsonNode answer(ObjectNode request) {
        PythonSide python = get();
        try {
            return python.answered(request);
        } catch (UncheckedIOException error) {
            if (!python.isGone(error)) throw error;
            return get().answered(request);
        }
    }

    /** Whether this process has ended, or the fork of it that was asked. One that hangs gets no second chance. */
    boolean isGone(UncheckedIOException error) {
        return !hung && (hasEnded() || error.getCause() instanceof EOFException);
    }

    private boolean hasEnded() {
        try {
            return process.waitFor(1, TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private JsonNode answered(ObjectNode request) {
        Line line = ask(request);
        try {
            return line.answer();
        } finally {
            line.close();
        }
    }
}
