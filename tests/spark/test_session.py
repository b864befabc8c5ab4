"""Sessions: what is set before Java starts, and how the source is found, in processes of their own."""

import ast
import os
import subprocess
import sys
import textwrap

import pytest

from flintmq.errors import MissingExtraError
from flintmq.spark.session import _is_local
from tests.harness import class_archive

session_module = sys.modules[_is_local.__module__]  # the package has a function of that name

session_module = sys.modules["flintmq.spark.session"]

COUNT = """
    frame = spark.read.format("flintmq").option("columns", "queue_offset").load(sys.argv[1])
    print("rows", frame.count())
    spark.stop()
"""


def run(code, *words, timeout=300, **environment):
    """Run a script with this interpreter, its environment not activated; gives what it printed."""
    keep = {key: os.environ[key] for key in ("HOME", "JAVA_HOME", "TMPDIR", "SPARK_SUBMIT_OPTS") if key in os.environ}
    path = os.pathsep.join(
        part for part in os.environ["PATH"].split(os.pathsep) if part != os.path.dirname(sys.executable)
    )
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, words)],
        env={**keep, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.spark
@pytest.mark.slow
def test_found_by_name_alone(golden):
    """A session that somebody else made, no word of flintmq but in format()."""
    text = run(
        """
        import os, sys
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        """
        + textwrap.indent(textwrap.dedent(COUNT), " " * 8),
        golden("basic").path,
    )
    assert "rows 3000" in text


class Asked:
    """What a session's builder is asked for, instead of a session."""

    def __init__(self):
        self.settings = {}
        self.builder = self

    def getActiveSession(self):
        return self

    def appName(self, name):
        return self

    master = appName

    def config(self, key, value):
        self.settings[key] = value
        return self

    def getOrCreate(self):
        return self


@pytest.mark.parametrize("given", [{}, {"spark.python.authenticate.socketTimeout": "15s", "spark.ui.enabled": True}])
def test_settings_of_a_session(monkeypatch, given):
    """Workers have two minutes to start: on a busy machine the 15 s that Spark gives end queries. The user's win."""
    asked = Asked()
    monkeypatch.setattr(session_module, "_session_class", lambda: asked)
    monkeypatch.setattr(session_module, "_quieten", lambda: None)
    monkeypatch.setattr(session_module, "register", lambda spark: spark)
    assert session_module.session("x", "local[1]", **given) is asked
    expected = given or {"spark.python.authenticate.socketTimeout": "120s", "spark.ui.enabled": False}
    assert {key: asked.settings[key] for key in expected} == {
        key: str(value).lower() if isinstance(value, bool) else value for key, value in expected.items()
    }


@pytest.mark.spark
@pytest.mark.slow
def test_a_broken_package_of_somebody_else_does_not_hide_it(golden, tmp_path):
    """One broken pyspark_* package hides every source that is only found by name; ours is registered."""
    (tmp_path / "pyspark_broken.py").write_text("raise RuntimeError('broken')\n")
    text = run(
        """
        import os, sys
        import flintmq.spark
        spark = flintmq.spark.session("test", master="local[1]")
        print("python", os.environ["PYSPARK_PYTHON"] == sys.executable)
        print("sockets", spark.conf.get("spark.python.unix.domain.socket.enabled"))
        """
        + textwrap.indent(textwrap.dedent(COUNT), " " * 8),
        golden("basic").path,
        PYTHONPATH=str(tmp_path),
    )
    assert text.split("\n")[:3] == ["python True", "sockets true", "rows 3000"]


@pytest.mark.parametrize(
    "given, kept",
    [
        *[(name, "C.UTF-8") for name in ("C", "POSIX", "en_US.ISO-8859-1", "zh_CN")],
        *[(name, name) for name in ("de_DE.UTF-8", "en_US.utf8", None)],
    ],
)
def test_java_is_started_where_it_can_read_all_names(monkeypatch, given, kept):
    """With LC_ALL=C it passes over files whose names are not ASCII, and tells nobody."""

    class Started(Exception):
        pass

    class Builder:
        def appName(self, name):
            raise Started

    fake = type("Fake", (), {"builder": Builder(), "getActiveSession": staticmethod(lambda: None)})
    monkeypatch.setattr(session_module, "_session_class", lambda: fake)
    monkeypatch.setattr(session_module, "use_java", lambda: None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(os, "environ", {name: value for name, value in os.environ.items() if name != "LC_ALL"})
    if given:
        os.environ["LC_ALL"] = given
    with pytest.raises(Started):
        session_module.session("x", "local[1]")
    assert os.environ.get("LC_ALL") == kept


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.turn(2, of=["src/flintmq/spark/session.py", "src/flintmq/spark/java.py"])
def test_a_cluster_with_worker_processes(golden, tmp_path):
    """Source, export and rebuild with two executors, each a process of its own."""
    text = run(
        """
        import os, sys
        import flintmq.spark
        from flintmq.config.keys import StoreConfig
        from flintmq.forensics import rebuild as local
        from flintmq.spark.jobs.export.job import export
        from flintmq.spark.jobs.rebuild import rebuild
        spark = flintmq.spark.session("test", master="local-cluster[2,1,1024]")
        store, out = sys.argv[1:]
        frame = spark.read.format("flintmq").option("minPartitions", 4).load(store)
        print("rows", frame.select("physical_offset").distinct().count())
        print("exported", export(spark, store, out + "/t").rows, spark.read.parquet(out + "/t").count())
        config = StoreConfig.from_keys({"maxHashSlotNum": 500, "maxIndexNum": 2000})
        rebuild(spark, store, out + "/spark", config)
        local.rebuild(store, out + "/local", config)
        def tree(root):
            return {os.path.relpath(os.path.join(d, f), root): open(os.path.join(d, f), "rb").read()
                    for d, _, fs in os.walk(root) for f in fs}
        print("equal", tree(out + "/spark") == tree(out + "/local"), len(tree(out + "/spark")) > 5)
        spark.stop()
        """,
        golden("basic").path,
        tmp_path,
        timeout=500,
        JAVA_TOOL_OPTIONS=class_archive.options(),  # the executors live for seconds
    )
    assert text.split("\n")[:3] == ["rows 3000", "exported 3000 3000", "equal True True"]


def test_the_discovery_hook_never_raises(tmp_path):
    """Without PySpark, or with one that is broken, importing it says so and lets other sources live."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise RuntimeError('not this one')\n")
    text = run("import pyspark_flintmq as m; print(hasattr(m, 'DefaultSource'))", PYTHONPATH=str(tmp_path))
    assert text == "False\n"


def test_importing_the_hook_is_light():
    """Every Spark session on the machine imports it, whether it reads stores or not: nothing but FlintMQ's own core."""
    text = run(
        """
        import sys
        import pyspark.sql.datasource
        before = set(sys.modules)
        import pyspark_flintmq
        assert pyspark_flintmq.DefaultSource.name() == "flintmq"
        new = {name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
        print(sorted(name for name in new if not name.startswith("_")))
        """
    )
    assert set(ast.literal_eval(text)) <= {"flintmq", "pyspark_flintmq", "cython_runtime"}


def test_without_the_extra_the_error_names_it(monkeypatch):
    import importlib.util

    import flintmq.spark

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pandas" else real(name, *more)
    )
    with pytest.raises(MissingExtraError, match=r"pandas: not installed; `pip install 'flintmq\[spark\]'`"):
        flintmq.spark.session("x")


@pytest.mark.parametrize(
    "master, environment, local",
    [
        ("local[2]", {}, True),
        ("local-cluster[2,1,1024]", {}, True),
        ("spark://host:7077", {}, False),
        ("yarn", {}, False),
        (None, {}, True),
        (None, {"PYSPARK_GATEWAY_PORT": "1"}, False),
        (None, {"SPARK_CONF_DIR": "/etc/spark"}, False),
    ],
)
def test_the_address_is_set_for_local_masters_only(monkeypatch, master, environment, local):
    for key in ("PYSPARK_GATEWAY_PORT", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE"):
        monkeypatch.delenv(key, raising=False)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    assert _is_local(master) is local


def test_the_package_is_importable_without_pyspark():
    run("import sys; sys.modules['pyspark'] = None; import flintmq.spark; flintmq.spark.session")


@pytest.mark.parametrize(
    "line", ["spark.jars /a.jar,/b.jar", "  spark.jars=/a.jar,/b.jar", "spark.jars: /a.jar,/b.jar"]
)
def test_jars_of_a_configuration_file_stay(tmp_path, monkeypatch, line):
    (tmp_path / "spark-defaults.conf").write_text(f"# spark.jars /no.jar\nspark.jars.packages x:y:1\n{line}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(session_module, "JAR", tmp_path / "spark-defaults.conf")  # a file that is there
    ours = str(tmp_path / "spark-defaults.conf")
    assert session_module._door({}) == {"spark.jars": f"/a.jar,/b.jar,{ours}"}
    assert session_module._door({"spark.jars": "/c.jar"}) == {"spark.jars": f"/c.jar,{ours}"}
    assert session_module._door({"spark.jars": ""}) == {}
