"""The page of statistics: nothing that a message says becomes part of it, and a browser shows it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")

import pyarrow as pa

from flintmq.arrow.schema import SPARK_SCHEMA, narrow
from flintmq.spark.jobs.consumer_lag import Lag
from flintmq.spark.jobs.figures import Statistics, statistics
from flintmq.spark.jobs.stats_page import MARK, page
from flintmq.spark.jobs.tally import COLUMNS, Tally
from tests.spark.jobs import browser

HOSTILE = "<script>document.title='broken'</script>\"><img src=x onerror=\"document.title='broken'\">"
EMPTY = {"br", "hr", "img", "input", "link", "meta"}


class Outline(HTMLParser):
    """Which elements there are, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def hostile() -> Statistics:
    """Statistics of messages whose every text is an attack."""
    count = 1200
    rows = {
        "topic": [HOSTILE] * count, "queue_id": [0] * count, "queue_offset": range(count), "keys": ["<b>k</b>"] * count,
        "msg_id": [HOSTILE] * count, "born_timestamp": [1_700_000_000_000_000 + i for i in range(count)],
        "born_host": ["<i>h</i>:99"] * count,
        "store_timestamp": [1_700_000_000_005_000 + 1000 * i for i in range(count)],
        "size": [300] * count,
    }  # fmt: skip
    tally = Tally()
    tally.add(pa.RecordBatch.from_pydict({n: list(rows[n]) for n in COLUMNS}, schema=narrow(COLUMNS, SPARK_SCHEMA)))
    found = statistics(tally, [Lag(HOSTILE, "</td><script>g\u202e", 1, 5000, 5000, 1_700_000_000_005, 7, 1)])
    found.store, found.notes = f"/tmp/{HOSTILE}", {"<u>n</u>": 1}
    return found


def test_what_messages_say_is_text() -> None:
    text = page(hostile())
    found = Outline(text)
    assert text.startswith(MARK) and found.open == []
    assert found.tags.isdisjoint({"script", "img", "b>k", "u", "link", "iframe", "object"})
    assert not any(name.startswith("on") for name in found.attributes) and "src" not in found.attributes
    assert "default-src 'none'" in text and "\u202e" not in text
    shown = "".join(found.text)
    assert "<b>k</b>" in shown and "<i>h</i>" in shown and "</td><script>g\\u202e" in shown


def test_nothing_is_fetched() -> None:
    text = page(hostile())
    assert not re.search(r"https?://|url\(|@import|//[a-z]+\.", text)


def test_a_store_without_messages() -> None:
    text = page(statistics(Tally(), []))
    assert "No messages in this range." in text and Outline(text).open == []


def test_a_browser_shows_it_and_runs_nothing(tmp_path: Path) -> None:
    browser.find()
    file = tmp_path / "page.html"
    file.write_text(page(hostile()), encoding="utf-8")
    dom = browser.dom(file, tmp_path / "profile")
    assert "<title>Statistics of " in dom and "<title>broken" not in dom
    found = Outline(dom.removeprefix(MARK))
    assert "script" not in found.tags and "img" not in found.tags
    assert "1,200" in found.text and "<b>k</b>" in found.text
