package flintmq.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Makes the reader of a task. */
final class PartReaders implements PartitionReaderFactory {
    private static final long serialVersionUID = 1L;

    private final String[] names;
    private final String request; // what the Python side is asked, without the part
    private final String python = PythonSide.python(); // as the driver knows it

    /** `limit`: rows of each part that are wanted; negative for all. `sample`: see StoreScan; null for all rows. */
    PartReaders(String[] names, int limit, ObjectNode sample) {
        this.names = names;
        request = PythonSide.JSON.createObjectNode().put("op", "read").put("limit", limit).set("sample", sample).toString();
    }

    @Override
    public boolean supportColumnarReads(InputPartition part) {
        return true;
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition part) {
        throw new UnsupportedOperationException("flintmq reads columns");
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition part) {
        try {
            ObjectNode asked = (ObjectNode) PythonSide.JSON.readTree(request);
            asked.put("task", TaskContext.getPartitionId());
            return new PartReader(PythonSide.get(python), ((Part) part).bytes, names, asked);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
