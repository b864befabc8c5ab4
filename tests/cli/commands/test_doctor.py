"""`flintmq doctor`: what is printed. What is found is tested in tests/forensics."""

from pathlib import Path

import pytest

from flintmq.cli.installation import Check, Diagnosis
from flintmq.errors import JavaNotFoundError
from tests.cli.conftest import Run


def test_this_installation(run: Run) -> None:
    result = run("doctor")
    assert result.code == 0, result.out
    for name in ("flintmq ", "python ", "kernels ", "crc32 ", "self-test "):
        assert f"\n{name}" in "\n" + result.out


def test_json(run: Run) -> None:
    [found] = run("doctor", "--json").rows
    assert list(found) == ["checks"]
    assert all(list(check) == ["name", "state", "found", "advice"] for check in found["checks"])
    assert {"flintmq", "python", "kernels", "crc32", "self-test"} <= {check["name"] for check in found["checks"]}


def test_an_ill_installation_is_exit_code_1_with_advice(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ill = Diagnosis([Check("python", "ok", "3.11"), Check("self-test", "broken", "it lies\x1b", "reinstall")])
    monkeypatch.setattr("flintmq.cli.installation.diagnose", lambda others, config: ill)
    result = run("doctor")
    assert result.code == 1
    assert result.out == "python     ok      3.11\nself-test  broken  it lies\\x1b\n                   -> reinstall\n"


def test_java_is_asked_for_where_spark_would_look(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")

    def none() -> None:
        raise JavaNotFoundError("Spark needs Java; install one")

    monkeypatch.setattr("flintmq.spark.java.find_java", none)
    assert "java           missing  Spark needs Java; install one" in run("doctor").out


def test_a_broker_s_configuration(run: Run, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("namesrvAddr=a:9876\nstoreType=defaultRocksDB\nmaxIndexNum=400\nhaListenPort=10912\n")
    words = "doctor", "--config", conf
    found = [check for check in run(*words, "--json").rows[0]["checks"] if check["name"] == "config"]
    assert [(check["state"], check["found"]) for check in found] == [
        ("broken", "storeType=defaultRocksDB: queues are files, and FlintMQ writes none in RocksDB"),
        ("no effect", "haListenPort"),
    ]
    assert found[0]["advice"] == "set storeType=default, or leave it out"
    assert run(*words).code == 1, "such a store is not opened for writing"
    mended = run(*words, "--set", "storeType=default")
    assert mended.code == 0 and "haListenPort" in mended.out
    conf.write_text("maxIndexNum=400\n")
    assert "1 keys of the store, all of which act" in run(*words).out
