package flintmq.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The source `flintmq` of Spark's planner. */
public final class DoorSource implements TableProvider, DataSourceRegister {
    static final String NAME = "flintmq";

    @Override
    public String shortName() {
        return NAME;
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        ObjectNode request = request("schema", options.asCaseSensitiveMap());
        return (StructType) DataType.fromJson(Line.field(PythonSide.answer(request), "schema").asText());
    }

    @Override
    public boolean supportsExternalMetadata() {
        return true;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
        String path = new CaseInsensitiveStringMap(options).get("path");
        String name = path == null ? NAME : NAME + " " + path;
        return new StoreTable(name, schema, options, new HashMap<String, String>(), options, "");
    }

    static ObjectNode request(String what, Map<String, String> options) {
        ObjectNode request = PythonSide.JSON.createObjectNode();
        request.put("op", what);
        request.set("options", PythonSide.JSON.valueToTree(options));
        return request;
    }
}
