package flintmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Stores as namespaces, and their topics as tables: `spark.sql.catalog.mq=flintmq.spark.Catalog`.
 *
 * <p>What there is, the Python side tells each time it is asked (flintmq/spark/door/catalog.py). Nothing is made, changed or
 * dropped here: a store is kept by its broker.
 */
public final class Catalog implements TableCatalog, SupportsNamespaces {
    private static final String NO_CHANGE = "flintmq makes, changes and drops no topics: that is for their broker";

    private static final String NO_VERSIONS =
            "flintmq's tables have no versions: time travel is by store time, as TIMESTAMP AS OF '2026-11-01 12:00:00'";

    private String name;
    private Map<String, String> options;

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
        this.options = new HashMap<String, String>(options.asCaseSensitiveMap());
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String[] defaultNamespace() {
        return new String[0];
    }

    @Override
    public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
        JsonNode names = Line.field(contents(namespace), "tables");
        Identifier[] found = new Identifier[names.size()];
        int number = 0;
        for (Iterator<JsonNode> all = names.iterator(); all.hasNext(); number++)
            found[number] = Identifier.of(namespace, ((JsonNode) all.next()).asText());
        return found;
    }

    @Override
    public Table loadTable(Identifier table) throws NoSuchTableException {
        return load(table, request("table", table.namespace()));
    }

    /** The table up to a time, in microseconds since 1970. */
    @Override
    public Table loadTable(Identifier table, long until) throws NoSuchTableException {
        return load(table, request("table", table.namespace()).put("until", until));
    }

    /** `VERSION AS OF`, which Spark would answer with that there is no such table. */
    @Override
    public Table loadTable(Identifier table, String version) {
        throw new UnsupportedOperationException(NO_VERSIONS);
    }

    private Table load(Identifier table, ObjectNode request) throws NoSuchTableException {
        JsonNode found = PythonSide.answer(request.put("table", table.name()));
        if (Line.field(found, "schema") == null) throw new NoSuchTableException(table);
        return new StoreTable(
                name + "." + table,
                (StructType) DataType.fromJson(Line.field(found, "schema").asText()),
                map(Line.field(found, "options")),
                map(Line.field(found, "properties")),
                Line.field(found, "sink") == null ? null : map(Line.field(found, "sink")),
                Line.field(found, "closed").asText());
    }

    @Override
    public String[][] listNamespaces() throws NoSuchNamespaceException {
        return listNamespaces(new String[0]);
    }

    @Override
    public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
        JsonNode names = Line.field(contents(namespace), "namespaces");
        String[][] found = new String[names.size()][];
        int number = 0;
        for (Iterator<JsonNode> all = names.iterator(); all.hasNext(); number++)
            found[number] = new String[] {((JsonNode) all.next()).asText()};
        return found;
    }

    @Override
    public boolean namespaceExists(String[] namespace) {
        return Line.field(PythonSide.answer(request("contents", namespace)), "tables") != null;
    }

    @Override
    public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
        return map(Line.field(contents(namespace), "properties"));
    }

    private JsonNode contents(String[] namespace) throws NoSuchNamespaceException {
        JsonNode found = PythonSide.answer(request("contents", namespace));
        if (Line.field(found, "tables") == null) throw new NoSuchNamespaceException(namespace);
        return found;
    }

    private ObjectNode request(String what, String[] namespace) {
        ObjectNode request = DoorSource.request(what, options);
        request.set("namespace", PythonSide.JSON.valueToTree(namespace));
        return request;
    }

    private static Map<String, String> map(JsonNode fields) {
        Map<String, String> found = new HashMap<String, String>();
        for (Iterator<String> names = fields.fieldNames(); names.hasNext(); ) {
            String name = (String) names.next();
            found.put(name, Line.field(fields, name).asText());
        }
        return found;
    }

    @Override
    public Table createTable(Identifier table, StructType schema, Transform[] partitions, Map<String, String> properties) {
        throw new UnsupportedOperationException(NO_CHANGE);
    }

    @Override
    public Table alterTable(Identifier table, TableChange[] changes) {
        throw new UnsupportedOperationException(NO_CHANGE);
    }

    @Override
    public boolean dropTable(Identifier table) {
        throw new UnsupportedOperationException(NO_CHANGE);
    }

    @Override
    public void renameTable(Identifier from, Identifier to) {
        throw new UnsupportedOperationException(NO_CHANGE);
    }

    @Override
    public void createNamespace(String[] namespace, Map<String, String> properties) {
        throw new UnsupportedOperationException(NO_CHANGE);
    }

    @Override
    public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
        throw new UnsupportedOperationException(NO_CHANGE);
    }

    @Override
    public boolean dropNamespace(String[] namespace, boolean cascade) {
        throw new UnsupportedOperationException(NO_CHANGE);
    }
}
