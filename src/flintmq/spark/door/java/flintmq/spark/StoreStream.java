package flintmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;

/**
 * Plans the micro-batches of one query, by one process of the Python side that lives as long as the query, if nobody ends it.
 *
 * <p>Thread: one at a time.
 */
final class StoreStream implements MicroBatchStream, SupportsAdmissionControl, SupportsTriggerAvailableNow, ReportsSourceMetrics {
    private final String name;
    private final Map<String, String> options;
    private final StructType schema;
    private boolean now; // the query ends with what was there when it began
    private Line line; // opened by the first call of a batch; null also where its process is gone

    StoreStream(String name, Map<String, String> options, StructType schema) {
        this.name = name;
        this.options = options;
        this.schema = schema;
    }

    /** What the progress of a query calls this source. */
    @Override
    public String toString() {
        return name;
    }

    /** A place in the stores, in the words of the Python source: a checkpoint of either is continued by the other. */
    static final class Place extends Offset {
        private final String text;

        Place(String text) {
            this.text = text;
        }

        @Override
        public String json() {
            return text;
        }
    }

    @Override
    public Offset initialOffset() {
        return place(plan(request("initial")));
    }

    @Override
    public Offset deserializeOffset(String json) {
        return new Place(json);
    }

    /**
     * The most rows of a batch.
     *
     * <p>Asked on a line of its own: Spark asks before it has written down which streams it must stop. One that is
     * refused beside this one, or a query that is stopped at this moment, would leave a line that nobody closes.
     */
    @Override
    public ReadLimit getDefaultReadLimit() {
        JsonNode most = Line.field(PythonSide.answer(opening("limit")), "rows");
        return most.isNull() ? ReadLimit.allAvailable() : ReadLimit.maxRows(most.asLong());
    }

    @Override
    public Offset latestOffset() {
        throw new UnsupportedOperationException("Spark asks for latestOffset(start, limit)");
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
        ObjectNode request = request("next");
        request.put("start", start.json());
        request.put("limits", !(limit instanceof ReadAllAvailable));
        return place(plan(request));
    }

    /** Takes note of it; said with the first call of a batch, for the same reason. */
    @Override
    public void prepareForTriggerAvailableNow() {
        now = true;
    }

    @Override
    public Offset reportLatestOffset() {
        JsonNode found = figures("progress");
        return found == null ? null : place(found);
    }

    @Override
    public Map<String, String> metrics(Optional<Offset> latest) {
        Map<String, String> found = new HashMap<String, String>();
        JsonNode answer = figures("metrics");
        if (answer == null) return found;
        JsonNode metrics = Line.field(answer, "metrics");
        for (Iterator<String> names = metrics.fieldNames(); names.hasNext(); ) {
            String name = (String) names.next();
            found.put(name, Line.field(metrics, name).asText());
        }
        return found;
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        ObjectNode request = request("tasks");
        request.put("start", start.json());
        request.put("end", end.json());
        return Part.all(plan(request));
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new PartReaders(schema.fieldNames(), -1, null);
    }

    /** Nothing: Spark's checkpoint records the progress. */
    @Override
    public void commit(Offset end) {}

    @Override
    public synchronized void stop() {
        if (line != null) line.close();
    }

    private static ObjectNode request(String call) {
        return PythonSide.JSON.createObjectNode().put("call", call);
    }

    /**
     * Asks for a part of a plan; again, once, of a new process, if somebody ended the one that was asked: a plan has no effect.
     *
     * <p>The new one knows from the offsets of a request all that it must. A query that ends with what was there looks again
     * what that is.
     */
    private synchronized JsonNode plan(ObjectNode request) {
        PythonSide python = line == null ? PythonSide.get() : line.python;
        try {
            return answer(python, request);
        } catch (UncheckedIOException error) {
            forget(python, error);
            return answer(PythonSide.get(), request);
        }
    }

    /** Figures of the query; null where the process is gone that knew how far it had planned. */
    private synchronized JsonNode figures(String name) {
        if (line == null) return null;
        try {
            return answer(line.python, request(name));
        } catch (UncheckedIOException error) {
            forget(line.python, error);
            return null;
        }
    }

    private void forget(PythonSide python, UncheckedIOException error) {
        if (!python.isGone(error)) throw error;
        line = null;
    }

    private JsonNode answer(PythonSide python, ObjectNode request) {
        if (line == null) {
            Line opened = python.ask(opening("stream").put("now", now));
            try {
                opened.answer();
                line = opened;
            } finally {
                if (line == null) opened.close();
            }
        }
        try {
            line.send(request);
            return line.answer();
        } catch (RuntimeException error) {
            line.close(); // Spark stops no stream whose first calls fail
            throw error;
        }
    }

    private ObjectNode opening(String operation) {
        return DoorSource.request(operation, options).put("schema", schema.json());
    }

    private static Offset place(JsonNode answer) {
        return new Place(Line.field(answer, "offset").asText());
    }
}
