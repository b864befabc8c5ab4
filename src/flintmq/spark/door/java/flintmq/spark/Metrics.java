package flintmq.spark;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What a query shows of its reads, in Spark's user interface. Spark makes each kind by its name, so each is a class. */
final class Metrics {
    private Metrics() {}

    static CustomMetric[] all() {
        return new CustomMetric[] {new LogRead(), new LogLeftOut(), new Received()};
    }

    /** Bytes of the log that the parts of the plan have. */
    public static final class LogRead extends CustomSumMetric {
        @Override
        public String name() {
            return "logRead";
        }

        @Override
        public String description() {
            return "bytes of log to read";
        }
    }

    /** Bytes of the log that the filters of the query left out of the plan. */
    public static final class LogLeftOut extends CustomSumMetric {
        @Override
        public String name() {
            return "logLeftOut";
        }

        @Override
        public String description() {
            return "bytes of log left out by filters";
        }
    }

    /** Bytes of rows that came from the Python side. */
    public static final class Received extends CustomSumMetric {
        @Override
        public String name() {
            return "received";
        }

        @Override
        public String description() {
            return "bytes of rows from Python";
        }
    }

    static CustomTaskMetric value(final CustomMetric of, final long value) {
        return new CustomTaskMetric() {
            @Override
            public String name() {
                return of.name();
            }

            @Override
            public long value() {
                return value;
            }
        };
    }
}
