"""A Spark stream of a broker's store in short; `python -m labs.broker_stream` is the long form."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")
pytest.importorskip("pyiceberg", reason="needs the extra iceberg")
pytest.importorskip("deltalake", reason="needs the extra delta")

from labs.broker_stream import Streamed

PARTS = ["src/flintmq/broker/", "src/flintmq/remoting/", "src/flintmq/spark/door/", "src/flintmq/spark/stream.py"]


@pytest.mark.spark
@pytest.mark.nightly(of=[*PARTS, "labs/broker"])
@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc")
def test_a_stream_of_what_is_sent(tmp_path: Path):
    one = Streamed(tmp_path, messages=3000, seed=1, pause_s=0.3)
    one.run()
    assert not one.found.wrong and not one.verdict.wrong
    assert one.kills == 4 and one.verdict.exported == one.found.counted["stored"] >= 3000
