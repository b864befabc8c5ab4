"""`flintmq follow` takes tables from a broker that serves a store; the log comes from `serve-ha` on the same store."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.format import config_json
from tests.cli.conftest import process
from tests.compat.stores import Golden
from tests.interop.served import files, served
from tests.support.engine import log_bytes

TABLES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


def follow(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flintmq", "follow", *map(str, words), "--once", "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", ["config", "config540", "config550"])
def test_tables_and_sizes(name: str, golden: Callable[[str], Golden], tmp_path: Path) -> None:
    store = golden(name)
    root, copy = store.copy(tmp_path), tmp_path / "copied"
    before = files(root)
    with served(root, tmp_path) as broker, process("serve-ha", root, "--listen", "127.0.0.1:0", "--json") as master:
        assert master.stdout is not None
        log = json.loads(master.stdout.readline())["address"]
        done = follow(log, "--config-from", broker.address, "--out", copy)
        assert done.returncode == 0, done.stderr + done.stdout
    for table in TABLES:
        mine, theirs = (config_json.parse((place / "config" / table).read_bytes()) for place in (copy, root))
        assert mine == theirs, table
    assert log_bytes(copy)[0] == log_bytes(root)[0]
    assert files(root) == before


def test_a_name_server_without_a_log(golden: Callable[[str], Golden], tmp_path: Path) -> None:
    """It knows the broker, which gives its log to nobody: that is said, and nothing is made."""
    with served(golden("config550").copy(tmp_path), tmp_path) as broker:
        done = follow("--namesrv", broker.address, "--out", tmp_path / "{broker}")
    assert done.returncode == 12 and not (tmp_path / "broker-a").exists()
    assert "broker-a gives its log to nobody; run `flintmq serve-ha` on the store" in done.stdout, done
