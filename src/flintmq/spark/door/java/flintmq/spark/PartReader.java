package flintmq.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.util.TransferPair;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the rows of one task: an Arrow stream, and a last message, without which the rows are not all.
 *
 * <p>Closing it early ends the Python process of this task: its next write fails. Read to its end it leaves that process to
 * the next task.
 */
final class PartReader implements PartitionReader<ColumnarBatch> {
    private static final BufferAllocator ROOT = new RootAllocator(Long.MAX_VALUE);

    private final String[] names;
    private final PythonSide python;
    private final Line line;
    private final BufferAllocator memory;
    private final ArrowStreamReader stream;
    private ColumnarBatch batch;
    private boolean whole;

    PartReader(PythonSide python, byte[] part, String[] names, ObjectNode request) {
        this.names = names;
        this.python = python;
        request.put("part", part);
        line = python.askForRows(request);
        memory = ROOT.newChildAllocator("flintmq", 0, Long.MAX_VALUE);
        stream = new ArrowStreamReader(line, memory);
    }

    @Override
    public boolean next() throws IOException {
        closeBatch();
        if (!stream.loadNextBatch()) {
            line.answer();
            whole = true;
            return false;
        }
        VectorSchemaRoot root = stream.getVectorSchemaRoot();
        ColumnVector[] columns = new ColumnVector[names.length];
        for (int at = 0; at < names.length; at++) columns[at] = taken(root.getVector(names[at]));
        batch = new ColumnarBatch(columns, root.getRowCount());
        return true;
    }

    /** The vector of one batch: Spark closes it, and a struct that is closed has no fields, which the next batch needs. */
    private ColumnVector taken(FieldVector vector) {
        TransferPair pair = vector.getTransferPair(memory);
        pair.transfer();
        return new ArrowColumnVector(pair.getTo());
    }

    private void closeBatch() {
        if (batch != null) batch.close();
        batch = null;
    }

    @Override
    public ColumnarBatch get() {
        return batch;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
        return new CustomTaskMetric[] {Metrics.value(new Metrics.Received(), line.received())};
    }

    @Override
    public void close() throws IOException {
        try {
            closeBatch();
            stream.close(false);
        } finally {
            if (whole) python.keep(line);
            else line.close();
            memory.close();
        }
    }
}
