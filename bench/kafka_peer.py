"""The Kafka broker and Spark's Kafka source of tests/support/kafka_broker.py, for lines."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness import Context, Unavailable

from tests.support import kafka_broker


def source_jars(context: Context) -> str:
    """Jars of Spark's Kafka source, with commas.

    Raises:
        Unavailable: no Maven, or it cannot fetch them.
    """
    context.say("  jars of Kafka come from Maven Central, if they are not there")
    try:
        return kafka_broker.source_jars()
    except kafka_broker.NoKafka as why:
        raise Unavailable(str(why)) from None


class Broker(kafka_broker.Broker):
    """One node; its data go with the scratch directory.

    Raises:
        Unavailable: it cannot be fetched, or does not start.
    """

    def __init__(self, context: Context, partitions: int) -> None:
        try:
            super().__init__(Path(tempfile.mkdtemp(prefix="kafka-", dir=context.scratch)), partitions)
        except kafka_broker.NoKafka as why:
            raise Unavailable(str(why)) from None
