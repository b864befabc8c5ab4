package flintmq.door;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The messages of the stores that the options name. */
final class StoreTable implements SupportsRead {
    private final StructType schema;
    private final Map<String, String> options;

    StoreTable(StructType schema, Map<String, String> options) {
        this.schema = schema;
        this.options = options;
    }

    @Override
    public String name() {
        return "flintmq " + options.get("path");
    }

    @Override
    public StructType schema() {
        return schema;
    }

    @Override
    public Set<TableCapability> capabilities() {
        return EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap asked) {
        return new StoreScan(schema, asked.asCaseSensitiveMap());
    }
}
