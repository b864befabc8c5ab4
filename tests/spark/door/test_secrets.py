"""What nobody shall read: keys of object storage, a registry's password, and the token of the door.

A program of its own, because Spark decides at its start whether it writes an event log.
"""

import io
import json
import os
import re
import secrets
import subprocess
import sys

import pytest

from flintmq import Message
from flintmq.spark.door import JAR
from tests.support.engine import put_messages
from tests.support.http_answers import answering

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not JAR.is_file(), reason="the jar was not built (tools/door_jar.py says why)"),
]

SPARKS_OWN = r"PYTHON_WORKER_FACTORY_SECRET=[0-9a-f]{64}"  # Spark 4.0 gives it to its workers so
SCHEMA = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}
PROGRAM = """
import json, os, sys
from pathlib import Path
import flintmq.spark
from tests.support.spark_reading import by_python

BOTH = ("flintmq", "flintmq_python")
given = json.loads(sys.stdin.read())
spark = flintmq.spark.session("secrets", "local[2]", **{
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.dir": f"file://{given['folder']}/events",
    "spark.sql.catalog.mq": "flintmq.spark.Catalog",
    "spark.sql.catalog.mq.path": given["store"],
    **{f"spark.sql.catalog.mq.{name}": given["options"][name] for name in ("s3.endpoint", "s3.region")},
})
by_python(spark)
frames = [spark.read.format(name).options(**given["options"]).load(given["store"]) for name in BOTH]
read = spark.readStream.format("flintmq").options(**given["options"]).load(given["store"])
writing = read.writeStream.format("noop").option("checkpointLocation", given["folder"] + "/checkpoint")
query = writing.trigger(availableNow=True).start()
query.awaitTermination()
told = {
    "sums": [frame.selectExpr("sum(body.id)").first()[0] for frame in frames],
    "count": spark.table("mq.Orders").count(),
    "plans": [str(one._jdf.queryExecution().toString()) for one in (*frames, spark.table("mq.Orders"))],
    "progress": [str(one) for one in query.recentProgress],
    "commands": [], "environments": [],
}
for process in Path("/proc").glob("[0-9]*"):
    try:
        command, environment = ((process / name).read_bytes().decode("latin-1") for name in ("cmdline", "environ"))
    except OSError:  # it has ended, or is somebody else's
        continue
    if os.environ["AWS_SECRET_ACCESS_KEY"] in environment:  # this program, or started by it
        told["commands"].append(command)
        told["environments"].append(environment)
(Path(given["folder"]) / "told.json").write_text(json.dumps(told))
spark.stop()
"""


def body(number: int) -> bytes:
    import fastavro

    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, SCHEMA, {"id": number})
    return b"\0\0\0\0\1" + encoded.getvalue()


def test_no_plan_log_or_list_of_processes_has_a_secret(objects, tmp_path):
    key, password = secrets.token_hex(20), secrets.token_hex(12)
    put_messages(tmp_path / "store", [Message("Orders", body(number)) for number in range(5)], dev=True)
    (tmp_path / "events").mkdir()
    schema = json.dumps(SCHEMA)
    with answering(lambda _: (200, {}, json.dumps({"schema": schema}).encode())) as registry:
        options = {
            "s3.endpoint": objects.endpoint,
            "s3.region": "us-east-1",
            "body": "avro",
            "bodyHead": "true",
            "bodySchema": schema,
            "schemaRegistry": registry.replace("http://", f"http://user:{password}@"),
        }
        store = objects.put(tmp_path / "store", "secrets")
        given = json.dumps({"folder": str(tmp_path), "store": store, "options": options})
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": "ours", "AWS_SECRET_ACCESS_KEY": key}
        subprocess.run(
            [sys.executable, "-c", PROGRAM], input=given, text=True, env=environment, check=True, timeout=240
        )
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["sums"], told["count"]) == ([10, 10], 5)
    events = [path.read_text() for path in (tmp_path / "events").rglob("*events*") if path.is_file()]
    checkpoint = [path.read_text("latin-1") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert any("SparkListenerJobEnd" in text for text in events) and checkpoint
    assert any("flintmq.spark.door.serve" in command for command in told["commands"])
    hidden = [*told["plans"], *told["progress"], *told["commands"], *events, *checkpoint]
    assert not [text for text in hidden if key in text or password in text]
    told["environments"] = [re.sub(SPARKS_OWN, "", text) for text in told["environments"]]
    tokens = [text for text in (*hidden, *told["environments"]) if re.search(r"\b[0-9a-f]{64}\b", text)]
    assert not tokens, "the token of the door is such a number"
