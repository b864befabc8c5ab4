"""Spark's Thrift server shows topics to a JDBC client, Hive's own in beeline: docs/spark/bi.md."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from flintmq.spark.door import JAR
from flintmq.spark.java import use_java
from tests.support.kafka_broker import free_port, listens

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not JAR.is_file(), reason="the jar was not built (tools/door_jar.py says why)"),
    pytest.mark.nightly(of=["docs/spark/bi.md", "src/flintmq/spark/door/", "tests/spark/test_thrift_server.py"]),
]
SCRIPTS = Path(sys.executable).parent
SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
TYPES = {
    "string": "topic tags keys msg_id offset_msg_id born_host store_host magic",
    "int": "queue_id size flag sys_flag reconsume_times",
    "bigint": "queue_offset physical_offset prepared_transaction_offset body_crc",
    "timestamp": "born_timestamp store_timestamp",
    "binary": "body",
    "map<string,string>": "properties",
}
"""Of all columns of a topic, as docs/operations/json.md has them."""
Rows = list[list[str]]


@pytest.fixture(scope="module")
def ask(golden: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Rows]]:
    """Runs queries in a JDBC session of its own, on a server whose catalog has the golden store `basic`."""
    use_java()
    work, port = tmp_path_factory.mktemp("thrift"), free_port()
    home = str(Path(pyspark.__file__).parent)
    given = {**os.environ, "SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "spark.driver.extraClassPath": JAR,
        "spark.sql.catalog.mq": "flintmq.spark.Catalog",
        "spark.sql.catalog.mq.stores.shop": golden("basic").path,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }
    words = [str(SCRIPTS / "spark-submit"), "--master", "local[2]"]
    words += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    words += ["--class", SERVER, "spark-internal"]
    for name, value in (("port", port), ("bind.host", "127.0.0.1")):
        words += ["--hiveconf", f"hive.server2.thrift.{name}={value}"]
    with (work / "log").open("wb") as log:
        server = subprocess.Popen(words, cwd=work, env=given, stdout=log, stderr=log)

    def ask(*queries: str) -> Rows:
        words = [str(SCRIPTS / "beeline"), "-u", f"jdbc:hive2://127.0.0.1:{port}/"]
        words += ["--silent=true", "--showHeader=false", "--outputformat=tsv2"]
        words += [word for query in queries for word in ("-e", query)]
        done = subprocess.run(words, cwd=work, env=given, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        lines = [line.rpartition("/> ")[2] for line in done.stdout.splitlines()]
        return [line.split("\t") for line in lines if line]

    try:
        until = time.monotonic() + 300
        while not listens(port) and server.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
        assert listens(port), (work / "log").read_text(errors="replace")[-3000:]
        yield ask
    finally:
        server.terminate()
        server.wait(60)


def test_tables_and_types(ask):
    found = ask("SHOW TABLES IN mq.shop", "DESCRIBE mq.shop.Orders")
    assert ["shop", "Orders", "false"] in found
    types = {name: type_ for name, type_, null in found if null == "NULL"}
    assert types == {name: type_ for type_, names in TYPES.items() for name in names.split()}


def test_rows_are_those_that_java_decodes(ask, golden):
    names = ["queue_id", "queue_offset", "tags", "keys", "msg_id", "born_host", "physical_offset", "size", "body_crc"]
    columns = ", ".join([*names, "unix_millis(store_timestamp)", "sha1(body)"])
    found = ask(f"SELECT {columns} FROM mq.shop.Orders ORDER BY physical_offset")
    rows = [row for row in golden("basic").live if row["topic"] == "Orders"]
    told = [[row[name] for name in (*names, "store_timestamp", "body_sha1")] for row in rows]
    assert found == [["NULL" if value is None else str(value) for value in row] for row in told]


def test_a_later_session_finds_classes_that_no_earlier_one_needed(ask):
    """Spark closes the loader of `spark.jars` with the first session; a join asks for one of its classes."""
    join = "SELECT count(*) FROM mq.shop.Orders a JOIN mq.shop.Orders b USING (queue_id, queue_offset)"
    assert ask(join) == ask("SELECT count(*) FROM mq.shop.Orders")


def test_a_view_for_tools_that_know_a_schema_and_a_table(ask):
    ask("CREATE SCHEMA marts", "CREATE VIEW marts.orders AS SELECT queue_id, keys FROM mq.shop.Orders")
    assert ask("SHOW TABLES IN marts") == [["marts", "orders", "false"]]
    assert ask("SELECT count(*) FROM marts.orders") == ask("SELECT count(*) FROM mq.shop.Orders")
