"""Log lines name their store: two stores of one process are told apart."""

from __future__ import annotations

import ast
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.store.message_store import MessageStore
from tests.support.engine import message, put_all

SRC = Path(__file__).parents[2] / "src" / "flintmq"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
NAMES = {"root", "path", "folder", "place"}
"""Names of values that are the store's path, or a path in it."""
NAMED_IN_TEXT = {
    "store/view.py: text",  # of a file of config/, or with the root before it
    "store/assembly.py: text",
    "store/services/housekeeping.py: problem.text",
    "store/read/key_query.py: error",  # of an index file
    "storage/mapped_file_queue.py: unused[start]",
}


def calls(path: Path) -> Iterator[ast.Call]:
    """The calls of a module's logger."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            holder = node.func.value
            yield from [node] if isinstance(holder, ast.Name) and holder.id == "log" else []


def test_each_line_of_the_engine_has_a_path_of_its_store():
    found = {}
    for room in ("store", "storage"):
        for path in sorted((SRC / room).rglob("*.py")):
            for call in calls(path):
                words = {getattr(one, "id", getattr(one, "attr", "")) for arg in call.args for one in ast.walk(arg)}
                texts = [ast.unparse(arg) for arg in call.args]
                found[path.relative_to(SRC).as_posix(), call.lineno] = words, texts
    assert len(found) > 40
    nameless = {
        where: texts
        for where, (words, texts) in found.items()
        if not words & NAMES and not any(f"{where[0]}: {text}" in NAMED_IN_TEXT for text in texts)
    }
    assert nameless == {}


def test_lines_of_recovery_and_dispatch_are_told_apart(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "flintmq")
    for name in ("a", "b"):
        with MessageStore(tmp_path / "before" / name, dev=True) as store:
            put_all(store, 3)
            shutil.copytree(tmp_path / "before" / name, tmp_path / name)  # as a kill leaves it
    caplog.clear()
    with MessageStore(tmp_path / "a", dev=True) as a, MessageStore(tmp_path / "b", dev=True) as b:
        for store in (a, b):
            store.put(message(3))
            store.wait_dispatched(10)
    lines = [record.getMessage() for record in caplog.records]
    recovered = [line for line in lines if "recovery after" in line]
    assert [line.partition(":")[0] for line in recovered] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert [line for line in lines if str(tmp_path) not in line] == []


def test_the_page_lists_each_logger():
    page = (SRC.parents[1] / "docs" / "guide" / "engine.md").read_text(encoding="utf-8")
    table = page.partition("## Logging")[2].partition("\n## ")[0]
    listed = {name for row in re.findall(r"^\|([^|]*)\|", table, re.MULTILINE) for name in re.findall(r"`(.*?)`", row)}
    texts = [path.read_text(encoding="utf-8") for path in sorted(SRC.rglob("*.py"))]
    made = {name for text in texts for name in re.findall(r"^log = logging.getLogger\((.*)\)$", text, re.MULTILINE)}
    assert listed == {name.strip('"') for name in made}
