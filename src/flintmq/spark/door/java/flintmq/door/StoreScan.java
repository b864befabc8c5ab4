package flintmq.door;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.Map;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructType;

/** One query of one table: the columns that it uses, and its plan. */
final class StoreScan implements ScanBuilder, SupportsPushDownRequiredColumns, Scan, Batch {
    private final Map<String, String> options;
    private StructType schema;

    StoreScan(StructType schema, Map<String, String> options) {
        this.schema = schema;
        this.options = options;
    }

    @Override
    public void pruneColumns(StructType used) {
        schema = used;
    }

    @Override
    public Scan build() {
        return this;
    }

    @Override
    public StructType readSchema() {
        return schema;
    }

    @Override
    public Batch toBatch() {
        return this;
    }

    @Override
    public InputPartition[] planInputPartitions() {
        ObjectNode request = DoorSource.request("plan", options);
        request.put("schema", schema.json());
        JsonNode parts = Line.field(PythonSide.get().answer(request), "parts");
        InputPartition[] found = new InputPartition[parts.size()];
        int number = 0;
        for (JsonNode part : parts) found[number++] = new Part(Base64.getDecoder().decode(part.asText()));
        return found;
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new PartReaders(schema.fieldNames());
    }
}
