"""The pytest plugin, in runs of pytest of its own, and the page that shows it."""

import os
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from flintmq.testing.pytest_plugin import leaks

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "flintmq.testing.pytest_plugin"


def run(folder: Path, code: str, *words: str, ini: str = "", plugins: tuple[str, ...] = ()) -> str:
    """What pytest says of a file, in a directory of its own; the plugin and these others are there."""
    (folder / "test_it.py").write_text(code)
    (folder / "pytest.ini").write_text("[pytest]\n" + ini)
    known = [word for plugin in (PLUGIN, *plugins) if not installed(plugin) for word in ("-p", plugin)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "--strict-markers", "-p", "no:cacheprovider", *known, *words],
        cwd=folder, capture_output=True, text=True, timeout=120, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    return done.stdout + done.stderr


def installed(plugin: str) -> bool:
    """Whether the entry point is registered in this environment."""
    from importlib.metadata import entry_points

    return any(point.value == plugin for point in entry_points(group="pytest11"))


def test_the_entry_point_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"]["flintmq"] == PLUGIN


def test_a_store_for_each_test_and_keys_from_all_sides(tmp_path: Path):
    code = """
import pytest
from flintmq import Message

pytestmark = pytest.mark.flintmq(fileReservedTime=5, max_message_size=1000)

def test_one(flintmq_store, flintmq_path, flintmq_reader):
    assert flintmq_store.root == str(flintmq_path)
    config = flintmq_store.config
    assert (config.flush_disk_type, config.file_reserved_time, config.max_message_size) == ("SYNC_FLUSH", 5, 1000)
    assert config.mapped_file_size_commit_log == 1 << 20, "small files"
    flintmq_store.put(Message("a", b"1"))
    flintmq_store.put(Message("b", b"2"))
    assert [m.body for m in flintmq_reader()] == [b"1", b"2"] and [m.body for m in flintmq_reader("b")] == [b"2"]

@pytest.mark.flintmq(max_message_size=2000, flushDiskType="ASYNC_FLUSH")
def test_two(flintmq_store, flintmq_reader):
    assert flintmq_reader() == [], "a fresh one"
    assert flintmq_store.config.max_message_size == 2000 and flintmq_store.config.flush_disk_type == "ASYNC_FLUSH"

def test_again_and_others(flintmq_open, tmp_path):
    with flintmq_open(fileReservedTime=7) as store:
        assert store.config.file_reserved_time == 7
        store.put(Message("a", b"x"))
    again, other = flintmq_open(), flintmq_open(tmp_path / "other")
    assert len(again.consumer("G", "a").poll(wait_ms=1000)) == 1 and other.consumer("G", "a").poll() == []
"""
    said = run(tmp_path, code, ini="flintmq_config =\n  flushDiskType=SYNC_FLUSH\n  maxMessageSize=500\n")
    assert "3 passed" in said, said


@pytest.mark.parametrize(
    ("marker", "ini", "words"),
    [
        ("@pytest.mark.flintmq(flushDiskTyp='x')", "", "flushDiskTyp"),
        ("@pytest.mark.flintmq('SYNC_FLUSH')", "", r"pytest.mark.flintmq\('SYNC_FLUSH',\): give keys"),
        ("", "flintmq_config = maxMessageSize", "is not KEY=VALUE"),
        ("", "flintmq_config = maxMessageSize=many", "maxMessageSize: 'many' is not a whole number"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, marker: str, ini: str, words: str):
    said = run(tmp_path, f"import pytest\n{marker}\ndef test_it(flintmq_store): pass", ini=ini)
    assert "1 error" in said and re.search(words, said), said


def test_leaks_are_told(tmp_path: Path):
    code = """
import os, threading, time
from flintmq import Message

def test_file(flintmq_store):
    flintmq_store.put(Message("a", b"x"))
    os.open(flintmq_store.root + "/commitlog/" + "0" * 20, os.O_RDONLY)

def test_thread(flintmq_store):
    threading.Thread(target=time.sleep, args=(60,), name="flintmq-flush", daemon=True).start()

def test_unclean(flintmq_store, monkeypatch):
    monkeypatch.setattr(type(flintmq_store._parts.small), "remove_abort", lambda small: None)
    flintmq_store.close()

def test_none(flintmq_store):
    pass
"""
    said = run(tmp_path, code)
    assert "4 passed, 3 errors" in said, said
    assert re.search(r"ERROR test_it.py::test_file - Failed: flintmq: .*/commitlog/0{20} is open", said)
    assert "thread flintmq-flush goes on" in said and "was not stopped cleanly" in said


def test_maps_and_threads_of_others_are_no_leaks(tmp_path: Path):
    assert leaks([str(tmp_path)], set(threading.enumerate())) == []


def test_the_page_shows_what_runs(tmp_path: Path):
    page = (ROOT / "docs" / "guide" / "testing.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```pytest\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [ini] = re.findall(r"^```ini\n\[pytest\]\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        said = run(tmp_path, block, ini=ini)
        assert re.search(r"\b[1-9] passed\b", said) and "error" not in said and "failed" not in said, said
