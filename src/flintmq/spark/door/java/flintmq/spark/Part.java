package flintmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Base64;
import org.apache.spark.sql.connector.read.InputPartition;

/** The part of one task, as the Python side has planned it: it alone can read these bytes. */
final class Part implements InputPartition {
    private static final long serialVersionUID = 1L;

    final byte[] bytes;

    private Part(byte[] bytes) {
        this.bytes = bytes;
    }

    /** The parts that an answer contains. */
    static InputPartition[] all(JsonNode answer) {
        JsonNode parts = Line.field(answer, "parts");
        InputPartition[] found = new InputPartition[parts.size()];
        int number = 0;
        for (JsonNode part : parts) found[number++] = new Part(Base64.getDecoder().decode(part.asText()));
        return found;
    }
}
