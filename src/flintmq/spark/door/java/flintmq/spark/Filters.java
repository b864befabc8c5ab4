package flintmq.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;

/** Puts filters into JSON: those that compare one column with values. Others are left out, and Spark applies all. */
final class Filters {
    private Filters() {}

    static ArrayNode of(Predicate[] predicates) {
        ArrayNode found = PythonSide.JSON.createArrayNode();
        for (Predicate predicate : predicates) {
            ObjectNode one = comparison(predicate);
            if (one != null) found.add(one);
        }
        return found;
    }

    private static ObjectNode comparison(Predicate predicate) {
        Expression[] children = predicate.children();
        if (children.length < 2 || !(children[0] instanceof NamedReference)) return null;
        String[] names = ((NamedReference) children[0]).fieldNames();
        if (names.length != 1) return null;
        ObjectNode found = PythonSide.JSON.createObjectNode().put("column", names[0]).put("operator", predicate.name());
        ArrayNode values = found.putArray("values");
        for (int at = 1; at < children.length; at++) {
            if (!(children[at] instanceof LiteralValue)) return null;
            LiteralValue literal = (LiteralValue) children[at];
            Object value = literal.value();
            if (value instanceof byte[]) return null; // bytes have no place in JSON, and no column of text is compared with them
            if (value == null) values.addNull();
            else if (value instanceof Number) values.add(((Number) value).longValue());
            else values.add(value.toString());
        }
        return found.put("type", ((LiteralValue) children[1]).dataType().typeName());
    }
}
