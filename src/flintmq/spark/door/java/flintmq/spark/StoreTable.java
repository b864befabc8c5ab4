package flintmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Iterator;
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
    private final String name;
    private final StructType schema;
    private final Map<String, String> options;
    private final Map<String, String> properties;
    private final Map<String, String> sink; // the options of a write; null where nothing may be written
    private final String closed; // why not
    // Of the stores, without filters, by the first query with these options: later ones see the same rows.
    private final Map<Map<String, String>, JsonNode> plans = new HashMap<Map<String, String>, JsonNode>();

    StoreTable(
            String name,
            StructType schema,
            Map<String, String> options,
            Map<String, String> properties,
            Map<String, String> sink,
            String closed) {
        this.name = name;
        this.schema = schema;
        this.options = options;
        this.properties = properties;
        this.sink = sink;
        this.closed = closed;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public StructType schema() {
        return schema;
    }

    @Override
    public Map<String, String> properties() {
        return Collections.unmodifiableMap(properties);
    }

    /** Writes too where nothing may be written: `newWriteBuilder` says why not, and Spark would only say that. */
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
        return new StoreScan(this, merged(options, asked));
    }

    /** The options of one read or write, and those of the table that it does not have. */
    private static Map<String, String> merged(Map<String, String> options, CaseInsensitiveStringMap asked) {
        Map<String, String> found = new HashMap<String, String>(asked.asCaseSensitiveMap());
        for (Iterator<String> names = options.keySet().iterator(); names.hasNext(); ) {
            String name = (String) names.next();
            if (!asked.containsKey(name)) found.put(name, options.get(name));
        }
        return found;
    }

    /** Plans a query of this table: `request` says what it asks for, with these options. */
    synchronized JsonNode plan(Map<String, String> given, ObjectNode request) {
        request.set("plans", (JsonNode) plans.get(given));
        JsonNode plan = PythonSide.answer(request);
        if (!plans.containsKey(given)) plans.put(given, Line.field(plan, "plans"));
        return plan;
    }

    @Override
    public WriteBuilder newWriteBuilder(final LogicalWriteInfo info) {
        if (sink == null) throw new UnsupportedOperationException(closed);
        final CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(merged(sink, info.options()));
        PythonDataSourceV2 python = new PythonDataSourceV2();
        python.setShortName(DoorSource.NAME);
        return ((SupportsWrite) python.getTable(schema, new Transform[0], sink)).newWriteBuilder(new LogicalWriteInfo() {
            @Override
            public CaseInsensitiveStringMap options() {
                return given;
            }

            @Override
            public String queryId() {
                return info.queryId();
            }

            @Override
            public StructType schema() {
                return info.schema();
            }
        });
    }
}
