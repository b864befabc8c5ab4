"""The fixture, in runs of pytest of its own, and the page that shows it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.testing.test_pytest_plugin import ROOT, run

PLUGIN = "flintmq.broker.testing.pytest_plugin"


def test_the_entry_point_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"]["flintmq_broker"] == PLUGIN


def test_a_broker_for_each_test_with_keys_from_all_sides(tmp_path: Path):
    code = """
import pytest
from flintmq import Message

@pytest.mark.flintmq(messageDelayLevel="1s 2s", autoCreateTopicEnable="false")
def test_keys(flintmq_broker, flintmq_path, flintmq_reader):
    assert flintmq_broker.store.root == str(flintmq_path)
    config = flintmq_broker.store.config
    assert (config.message_delay_level, config.max_message_size) == ("1s 2s", 500)
    flintmq_broker.store.put(Message("orders", b"1"))
    assert [m.body for m in flintmq_broker.wait("orders", 1)] == [m.body for m in flintmq_reader()] == [b"1"]

def test_a_fresh_one(flintmq_broker):
    assert list(flintmq_broker.store.topics()) == []
"""
    said = run(tmp_path, code, ini="flintmq_config = maxMessageSize=500\n", plugins=(PLUGIN,))
    assert "2 passed" in said, said


def test_one_broker_for_all_tests_is_emptied_after_each(tmp_path: Path):
    code = """
import pytest
from flintmq import Message

addresses = set()

@pytest.fixture(scope="session")
def service(flintmq_broker_session):
    return flintmq_broker_session.address

@pytest.mark.parametrize("n", range(3))
def test_each(flintmq_broker_session, service, n):
    store = flintmq_broker_session.store
    assert not store.topics() and not store.groups() and store.config.max_message_size == 500
    store.put(Message("orders", b"%d" % n))
    assert [m.body for m in flintmq_broker_session.wait("orders", 1)] == [b"%d" % n]
    store.commit_offset("billing", "orders", 0, 1)
    addresses.add(service)
    if n == 1:
        flintmq_broker_session.kill()

def test_it_was_one(flintmq_broker_session):
    assert addresses == {flintmq_broker_session.address}

def test_another(flintmq_broker, flintmq_broker_session):
    assert flintmq_broker.address != flintmq_broker_session.address
"""
    said = run(tmp_path, code, ini="flintmq_config = maxMessageSize=500\n", plugins=(PLUGIN,))
    assert "5 passed" in said and "error" not in said, said


def test_the_plugin_loads_no_broker_before_a_test_wants_one():
    code = f"import sys, {PLUGIN}; print(sorted(name for name in sys.modules if name.startswith('flintmq.broker')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(["flintmq.broker", "flintmq.broker.testing", PLUGIN])


def test_the_page_shows_what_runs(tmp_path: Path):
    page = (ROOT / "docs" / "guide" / "broker.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```pytest\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        said = run(tmp_path, block, plugins=(PLUGIN,))
        assert re.search(r"\b[1-9] passed\b", said) and "error" not in said and "failed" not in said, said
