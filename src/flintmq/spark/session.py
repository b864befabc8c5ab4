"""Makes a Spark session that can read stores: finds Java, sets Python and useful settings.

This module exists because some settings (`PYSPARK_PYTHON`, sockets, buffer) have no effect after Java has started. A
session made in another way gets the source by `register(spark)`.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from flintmq.errors import MissingExtraError
from flintmq.spark.door import JAR
from flintmq.spark.java import use_java
from flintmq.spark.versions import check_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    # Data from Python comes over unix sockets in pieces of 1 MiB: a third more rows a second than with the defaults.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.python.udf.buffer.size": str(1 << 20),
    # Lets the source filter while it scans. Sources that cannot are not affected.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Time for workers to start. On a busy machine Spark's default of 15 seconds is not enough for their imports, and a
    # query ends with "Python worker failed to connect back".
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(name: str, master: str | None = None, **conf: object) -> SparkSession:
    """Make a Spark session with the source `flintmq`, or return the running one.

    The source is the one in the JVM where its jar was built, else that in Python: docs/spark/jvm.md.

    Sets in the environment, unless the user has: PYSPARK_PYTHON (this interpreter, for planning and tasks),
    JAVA_HOME (if Java is not found without it), and for a local master SPARK_LOCAL_IP. A locale without UTF-8
    becomes LC_ALL=C.UTF-8.

    Args:
        name: the application's name.
        master: Spark's master URL, such as "local[2]"; None uses the setting of spark-submit or Spark's configuration.
        conf: further settings; since their names contain dots: `**{"spark.driver.memory": "4g"}`. They override ours.
            `"spark.jars": ""` takes the source in Python although the jar is there.

    Returns:
        The session. If one is running in this process, that one: settings that need a start are then not applied.

    Raises:
        MissingExtraError: pyspark, or pandas or pyarrow which it needs, is not installed.
        UsageError: Spark is of a version that this one was not tried with.
        JavaNotFoundError: there is no Java to run Spark on.
    """
    spark_session = _session_class()
    _quieten()
    if running() is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started Java already
            use_java()
            if not _is_utf8(os.environ):  # Java would skip files with names that are not ASCII
                os.environ["LC_ALL"] = "C.UTF-8"
        if _is_local(master):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = spark_session.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**SETTINGS, **conf, **_door(conf)}.items():
        builder = builder.config(key, str(value).lower() if isinstance(value, bool) else str(value))
    return register(builder.getOrCreate())


def _door(conf: Mapping[str, object]) -> dict[str, str]:
    """Return the setting that adds our jar, if it was built, to those of the user."""
    jars = conf.get("spark.jars", _jars_elsewhere())
    if conf.get("spark.jars") == "" or not JAR.is_file():
        return {}
    return {"spark.jars": f"{jars},{JAR}" if jars else str(JAR)}


def _jars_elsewhere() -> str:
    """Return the jars that spark-submit or spark-defaults.conf names, which ours would replace."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        return str(SparkConf().get("spark.jars", ""))
    import pyspark

    home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    path = os.path.join(os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf"), "spark-defaults.conf")
    try:
        with open(path, encoding="utf-8") as file:
            found = [re.match(r"\s*spark\.jars[\s=:]+(\S+)", line) for line in file]
    except OSError:
        return ""
    return next((one[1] for one in reversed(found) if one), "")


def _is_utf8(environ: Mapping[str, str]) -> bool:
    """Return whether the locale that is set, if any, names UTF-8 as its encoding."""
    name = next((environ[key] for key in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(key)), "UTF-8")
    return "utf" in name.lower()


def running() -> SparkSession | None:
    """Return the session that is active in this thread, if any.

    Raises MissingExtraError: pyspark, or pandas or pyarrow which it needs, is not installed; UsageError: Spark is of a
    version that this one was not tried with.
    """
    return _session_class().getActiveSession()


def register(spark: SparkSession) -> SparkSession:
    """Register the source, so that `spark.read.format("flintmq")` works in a session.

    Spark finds the installed source by its name alone; but one broken package of another source hides all of them, and
    a package installed after the session started is not seen. This way always works.

    Returns:
        The session itself.

    Raises:
        MissingExtraError: pyspark, or pandas or pyarrow which it needs, is not installed.
        UsageError: Spark is of a version that this one was not tried with.
    """
    _session_class()
    from pyspark.errors import AnalysisException

    from flintmq.spark.source import FlintMQSource

    try:
        spark.dataSource.register(FlintMQSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # Spark 4.0, where the jar has the name
            raise
    return spark


def _session_class() -> type[SparkSession]:
    # Spark itself would report a missing pandas or pyarrow only in the middle of a job.
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"{' and '.join(missing)}: not installed; `pip install 'flintmq[spark]'` brings it")
    from pyspark.sql import SparkSession

    check_spark()
    return SparkSession


def _quieten() -> None:
    """Silence two useless outputs: a warning about pandas, and a second copy of each error."""
    from pyspark.logger import PySparkLogger

    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def _is_local(master: str | None) -> bool:
    """Return whether Spark will run on this machine only.

    Without a master it will, unless the environment may name one.
    """
    if master is None:
        elsewhere = ("PYSPARK_GATEWAY_PORT", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE")
        return not any(key in os.environ for key in elsewhere)
    return master.startswith("local")
