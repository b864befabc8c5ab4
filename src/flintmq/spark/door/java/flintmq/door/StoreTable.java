package flintmq.door;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The messages of the stores that the options name. They are written by the sink in Python: there is one way to put. */
final class StoreTable implements SupportsRead, SupportsWrite {
    private final StructType schema;
    private final Map<String, String> options;
    private JsonNode plans; // of the stores, without filters, by the first query: later ones see the same rows

    StoreTable(StructType schema, Map<String, String> options) {
        this.schema = schema;
        this.options = options;
    }

    @Override
    public String name() {
        String path = (String) options.get("path");
        return path == null ? DoorSource.NAME : DoorSource.NAME + " " + path;
    }

    @Override
    public StructType schema() {
        return schema;
    }

    @Override
    public Set<TableCapability> capabilities() {
        return EnumSet.of(
                TableCapability.BATCH_READ,
                TableCapability.MICRO_BATCH_READ,
                TableCapability.BATCH_WRITE,
                TableCapability.STREAMING_WRITE,
                TableCapability.TRUNCATE);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap asked) {
        return new StoreScan(this, asked.asCaseSensitiveMap());
    }

    /** Plans a query of this table: `request` says what it asks for. */
    synchronized JsonNode plan(ObjectNode request) {
        request.set("plans", plans);
        JsonNode plan = PythonSide.get().answer(request);
        if (plans == null) plans = Line.field(plan, "plans");
        return plan;
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        PythonDataSourceV2 sink = new PythonDataSourceV2();
        sink.setShortName(DoorSource.NAME);
        return ((SupportsWrite) sink.getTable(schema, new Transform[0], options)).newWriteBuilder(info);
    }
}
