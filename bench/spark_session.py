"""The Spark session of the lines S1 to S8: one for all of them, local[2], with this folder importable by workers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from harness import Context

FOLDER = str(Path(__file__).resolve().parent)


def session(context: Context) -> Any:
    """The session; made at the first call, with Spark's Kafka source if S3 is to be measured."""
    if "spark" not in context.shared:
        paths = [FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        from ready_source import ReadySource

        from flintmq.spark import session as flintmq_session

        settings = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2"}
        if "S3" in context.wanted:
            from kafka_peer import source_jars

            settings["spark.jars"] = source_jars(context)
        spark = flintmq_session("flintmq bench", master="local[2]", **settings)
        spark.dataSource.register(ReadySource)
        context.shared["spark"] = spark
    return context.shared["spark"]


def noop(frame: Any) -> None:
    """Run a frame to its end and throw the rows away."""
    frame.write.format("noop").mode("overwrite").save()


def load(spark: Any, path: Any, **options: str) -> Any:
    """The store as a frame."""
    return spark.read.format("flintmq").options(**options).load(str(path))
