package flintmq.door;

import org.apache.spark.sql.connector.read.InputPartition;

/** The part of one task, as the Python side has planned it: it alone can read these bytes. */
final class Part implements InputPartition {
    private static final long serialVersionUID = 1L;

    final byte[] bytes;

    Part(byte[] bytes) {
        this.bytes = bytes;
    }
}
