"""`flintmq metrics`: what is printed, and the server as a process. What is in it is tested in tests/metrics."""

import os
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run, process
from tests.compat.stores import Golden
from tests.support.java_figures import lags
from tests.support.prometheus import only, samples


@pytest.fixture
def brokers(golden: Callable[[str], Golden], tmp_path: Path) -> Path:
    for broker, name in (("库存", "config"), ("b", "delay")):
        shutil.copytree(golden(name).path, tmp_path / broker / "store")
    return tmp_path


def address(child: subprocess.Popen[str]) -> str:
    assert child.stderr is not None
    for line in child.stderr:
        found = re.search(r"serving (http://\S+/metrics) of", line)
        if found:
            return found[1]
    raise AssertionError("it ended")


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def test_printed_once(run: Run, golden: Callable[[str], Golden], brokers: Path) -> None:
    result = run("metrics", f"{brokers}/{{broker}}/store")
    assert (result.code, result.err) == (0, "")
    shown = only(samples(result.out), "rocketmq_consumer_lag_messages", "node_id", "consumer_group", "topic")
    for broker, name in (("库存", "config"), ("b", "delay")):
        expected = {key: lag.messages for key, lag in lags(golden(name)).items()}
        assert {key[1:]: value for key, value in shown.items() if key[0] == broker} == expected


def test_stores_that_are_missing_set_the_exit_code(run: Run, brokers: Path) -> None:
    result = run("metrics", brokers / "b" / "store", brokers / "absent")
    assert result.code == 2 and result.err.count("\n") == 1 and "absent" in result.err
    assert sorted(only(samples(result.out), "flintmq_store_up", "store").values()) == [0, 1]
    for given in (brokers / "absent", brokers, "*.none"):
        result = run("metrics", given)
        assert (result.code, result.out) == (2, "") and result.err.count("\n") == 1


def test_settings_and_broker_conf_are_those_of_retention(run: Run, brokers: Path) -> None:
    conf, root, written = brokers / "broker.conf", brokers / "库存" / "store", 1_790_000_000
    conf.write_text("brokerName=b\nfileReservedTime=100000\ncleanFileForciblyEnable=false\n")
    for file in (root / "commitlog").iterdir():
        os.utime(file, (written, written))
    forced = ["--set", "cleanFileForciblyEnable=false"]
    for hours, words in ((100_000, ["--config", conf]), (200_000, ["--set", "fileReservedTime=200000", *forced])):
        found = samples(run("metrics", root, *words).out)
        [when] = only(found, "flintmq_retention_next_deletion_timestamp_seconds", "node_id").values()
        assert written + hours * 3600 <= when <= written + (hours + 25) * 3600
    assert run("metrics", brokers / "b" / "store", "--set", "fileReservedTim=1").code == 2
    assert run("metrics", brokers / "b" / "store", "--config", brokers / "none").code != 0


@pytest.mark.parametrize("given", ["", "x:y", "1.2.3.4:99999", "http://x", "a b:1", "[::1", ":::"])
def test_an_address_is_host_and_port(run: Run, brokers: Path, given: str) -> None:
    result = run("metrics", brokers / "b" / "store", f"--listen={given}")
    assert (result.code, result.out) == (2, "") and "--listen" in result.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_served_until_a_signal(brokers: Path, number: int) -> None:
    with process("metrics", f"{brokers}/{{broker}}/store", "--listen", "127.0.0.1:0") as child:
        url = address(child)
        assert url.startswith("http://127.0.0.1:")
        assert set(samples(fetch(url))["flintmq_store_up"].values()) == {1}
        shutil.rmtree(brokers / "b")
        assert sorted(samples(fetch(url))["flintmq_store_up"].values()) == [0, 1]
        os.kill(child.pid, number)
        out, err = child.communicate(timeout=30)
        assert child.returncode == 0 and out == "" and "is its disk mounted" in err and "Traceback" not in err


def test_another_address_than_loopback_is_said(brokers: Path) -> None:
    with process("metrics", brokers / "b" / "store", "--listen", "0.0.0.0:0") as child:
        assert child.stderr is not None
        assert "whoever reaches it" in child.stderr.readline()
        address(child)


def test_a_port_that_is_taken(run: Run, brokers: Path) -> None:
    with process("metrics", brokers / "b" / "store", "--listen", "0") as child:
        port = address(child).rpartition(":")[2].partition("/")[0]
        result = run("metrics", brokers / "b" / "store", "--listen", f"127.0.0.1:{port}")
        assert result.code == 2 and "give another address" in result.err and result.err.count("\n") == 1
