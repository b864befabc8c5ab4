package flintmq.door;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Makes the reader of a task. */
final class PartReaders implements PartitionReaderFactory {
    private static final long serialVersionUID = 1L;

    private final String[] names;
    private final int limit; // rows of each part that are wanted; negative for all

    PartReaders(String[] names, int limit) {
        this.names = names;
        this.limit = limit;
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
        return new PartReader(((Part) part).bytes, names, limit);
    }
}
