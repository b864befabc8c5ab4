package flintmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTableSample;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/**
 * One query of one table: the columns that it uses, its filters and its limit, and its plan.
 *
 * <p>A filter leaves out parts of the log early; Spark applies each one too. The plan is made once, when Spark first asks
 * for statistics or for parts.
 */
final class StoreScan
        implements ScanBuilder,
                SupportsPushDownRequiredColumns,
                SupportsPushDownV2Filters,
                SupportsPushDownLimit,
                SupportsPushDownTableSample,
                Scan,
                SupportsReportStatistics,
                Batch {
    private final StoreTable table;
    private final Map<String, String> options;
    private StructType schema;
    private Predicate[] filters = new Predicate[0];
    private int limit = -1;
    private ObjectNode sample; // rows whose random number, of a row of them for each task, is from `lower` to below `upper`
    private boolean streams; // parts are planned by StoreStream, and nobody knows how much comes
    private JsonNode plan;

    StoreScan(StoreTable table, Map<String, String> options) {
        this.table = table;
        schema = table.schema();
        this.options = options;
    }

    @Override
    public void pruneColumns(StructType used) {
        schema = used;
    }

    @Override
    public Predicate[] pushPredicates(Predicate[] predicates) {
        filters = predicates;
        return predicates;
    }

    @Override
    public Predicate[] pushedPredicates() {
        return filters;
    }

    @Override
    public boolean pushLimit(int rows) {
        limit = rows;
        return true;
    }

    @Override
    public boolean isPartiallyPushed() {
        return true; // each part ends there, and Spark cuts the rest
    }

    @Override
    public boolean pushTableSample(double lower, double upper, boolean withReplacement, long seed) {
        if (withReplacement) return false;
        sample = PythonSide.JSON.createObjectNode().put("lower", lower).put("upper", upper).put("seed", seed);
        return true;
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
        return Metrics.all();
    }

    @Override
    public CustomTaskMetric[] reportDriverMetrics() {
        if (!estimate("bytes").isPresent()) return new CustomTaskMetric[0];
        return new CustomTaskMetric[] {
            Metrics.value(new Metrics.LogRead(), estimate("bytes").getAsLong()),
            Metrics.value(new Metrics.LogLeftOut(), estimate("left_out").getAsLong())
        };
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
    public String description() {
        return table.name() + " " + Filters.of(filters) + (limit < 0 ? "" : ", limit " + limit) + (sample == null ? "" : ", sample " + sample);
    }

    @Override
    public Batch toBatch() {
        return this;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
        streams = true;
        return new StoreStream(table.name(), options, schema);
    }

    @Override
    public Statistics estimateStatistics() {
        final OptionalLong bytes = estimate("bytes");
        final OptionalLong rows = estimate("rows");
        return new Statistics() {
            @Override
            public OptionalLong sizeInBytes() {
                return bytes;
            }

            @Override
            public OptionalLong numRows() {
                return rows;
            }
        };
    }

    private OptionalLong estimate(String what) {
        JsonNode found = streams ? null : Line.field(plan(), what);
        return found == null || found.isNull() ? OptionalLong.empty() : OptionalLong.of(found.asLong());
    }

    @Override
    public InputPartition[] planInputPartitions() {
        return Part.all(plan());
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new PartReaders(schema.fieldNames(), limit, sample);
    }

    private synchronized JsonNode plan() {
        if (plan == null) {
            ObjectNode request = DoorSource.request("plan", options);
            request.put("schema", schema.json());
            // A sample is of all rows, whatever the query then filters: else two queries of it would not fit together.
            request.set("filters", Filters.of(sample == null ? filters : new Predicate[0]));
            plan = table.plan(options, request);
        }
        return plan;
    }
}
