package flintmq.oracle;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.SqlFilter;
import org.apache.rocketmq.filter.expression.Expression;

/** Compiles expressions of SQL92, and evaluates each for messages with these properties, as the broker does. */
final class SqlFilters {

    private SqlFilters() {
    }

    /** Reads one question a line, {"sql", "of": [properties, ...]}; answers {"refused"} or {"answers"}. */
    static void answer(BufferedReader lines) throws IOException {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject asked = JSON.parseObject(line);
            Expression compiled;
            try {
                compiled = new SqlFilter().compile(asked.getString("sql"));
            } catch (Throwable refusal) {
                Oracle.emit(Oracle.row("refused", refusal.getMessage()));
                continue;
            }
            List<Object> answers = new ArrayList<>();
            for (Object properties : asked.getJSONArray("of")) {
                Map<String, String> pairs = new HashMap<>();
                ((JSONObject) properties).forEach((name, value) -> pairs.put(name, (String) value));
                answers.add(evaluated(compiled, pairs));
            }
            Oracle.emit(Oracle.row("answers", answers));
        }
    }

    private static Object evaluated(Expression compiled, Map<String, String> properties) {
        try {
            return compiled.evaluate(new MessageEvaluationContext(properties));
        } catch (Throwable failure) {
            return "failed";
        }
    }
}
