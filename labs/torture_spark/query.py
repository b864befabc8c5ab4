"""A program of Spark's: a store into Parquet files, by a query that goes on from its checkpoint.

    python labs/torture_spark/query.py STORE FOLDER MASTER MAX_OFFSETS [KEY=VALUE ...]

The files are FOLDER/table, the checkpoint is FOLDER/checkpoint. SIGTERM stops the query and the session.
"""

import signal
import sys
import threading

import flintmq.spark


def main(store: str, folder: str, master: str, max_offsets: str, *options: str) -> None:
    """Run until SIGTERM, or until the query fails."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    spark = flintmq.spark.session("torture", master=master)
    spark.sparkContext.setLogLevel("WARN")
    source = spark.readStream.format("flintmq").options(maxOffsetsPerTrigger=max_offsets)
    frame = source.options(**dict(option.split("=", 1) for option in options)).load(store)
    writer = frame.select("topic", "queue_id", "queue_offset", "physical_offset", "body").writeStream.format("parquet")
    query = writer.option("path", f"{folder}/table").option("checkpointLocation", f"{folder}/checkpoint").start()
    try:
        while not stopped.is_set():
            if query.awaitTermination(0.2):
                sys.exit("the query ended by itself")
        query.stop()
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
