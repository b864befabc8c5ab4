"""A count on threads: figures against the rows that Java read, the page in a browser, and what it refuses."""

import os
import re
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, UsageError
from flintmq.lake.export.workers import Threads
from flintmq.lake.stats.page import MARK, MARKS, page
from flintmq.lake.stats.run import stats
from flintmq.testing import write_store
from tests.lake.stats import browser

PICTURE = Path(__file__).resolve().parents[3] / "docs" / "pictures" / "stats.png"
SIZE = 1100, 1640


def test_figures_are_those_of_javas_rows(golden: Any, tmp_path: Path) -> None:
    store, out = golden("basic"), tmp_path / "basic.html"
    found, rows = stats(str(store.path), str(out)), store.rows
    assert (found.messages, found.bytes) == (len(rows), sum(row["size"] for row in rows))
    times = [row["store_timestamp"] for row in rows]
    assert (found.first_time, found.last_time) == (min(times), max(times))
    assert found.rate["messages_per_s"] == pytest.approx(len(rows) * 1000 / (max(times) - min(times)), rel=1e-3)
    queues = Counter((row["topic"], row["queue_id"]) for row in rows)
    hot = [(one["topic"], one["queue_id"]) for one in found.hot_queues]
    assert {name: one["messages"] for name, one in zip(hot, found.hot_queues, strict=True)} == queues
    topics = Counter(row["topic"] for row in rows)
    for one in found.topics:
        fullest = max(count for (topic, _), count in queues.items() if topic == one["topic"])
        assert (one["messages"], one["largest_queue"]) == (topics[one["topic"]], fullest)
        assert one["skew"] == pytest.approx(fullest / (topics[one["topic"]] / one["queues"]), abs=1e-3)
    width = found.over_time["width_ms"]
    true = Counter((row["topic"], row["store_timestamp"] // width * width) for row in rows)
    drawn = {
        (topic, begin): count
        for topic, counts in found.over_time["messages"].items()
        for begin, count in zip(found.over_time["begin"], counts, strict=True)
        if count
    }
    assert drawn == true
    waits = sorted(row["store_timestamp"] - row["born_timestamp"] for row in rows)
    assert found.latency["least"] == waits[0] and found.latency["largest"] == waits[-1]
    assert waits[1499] <= found.latency["p50"] <= waits[1499] * 33 / 32
    keys: Counter[tuple[str, str]] = Counter()
    for row in rows:
        keys.update((row["topic"], key) for key in set((row["keys"] or "").split()))
    assert (found.keys["exact"], found.keys["distinct"]) == (True, len(keys))
    assert found.keys["surplus"] == sum(keys.values()) - len(keys)
    top = found.keys["top"][0]
    assert top["messages"] == max(keys.values()) == keys[top["topic"], top["value"]]
    text = out.read_text(encoding="utf-8")
    assert text.startswith(MARK) and "库存" in text and f"{len(rows):,}" in text


def test_lag_of_a_brokers_groups(golden: Any) -> None:
    found = stats(str(golden("config").path))
    assert {lag["group"] for lag in found.lags} == {
        "TagGroup",
        "TradeGroup",
        "TxGroup",
        "AuditGroup",
        "CID_RMQ_SYS_TRANS",
    }
    [trade] = [lag for lag in found.lags if (lag["group"], lag["topic"]) == ("TagGroup", "Trade")]
    ends = [row["max"] for row in golden("config").queue_rows if row["kind"] == "queue" and row["topic"] == "Trade"]
    assert trade["behind"] == sum(ends) - (17 + 21 + 18 + 18)  # config/consumerOffset.json of the archive


def test_only_what_is_asked_for(golden: Any) -> None:
    rows = golden("basic").rows
    middle = sorted(row["store_timestamp"] for row in rows)[1500]
    found = stats(str(golden("basic").path), topics=["Orders"], since=middle, until=middle + 200)
    asked = [r for r in rows if r["topic"] == "Orders" and middle <= r["store_timestamp"] < middle + 200]
    assert (found.messages, found.topic_count) == (len(asked), 1) and asked


def test_a_store_that_is_being_written(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "live", dev=True) as store:
        for number in range(500):
            store.put(Message("Orders", b"x" * 50, keys=f"<script>k{number % 50}</script>"))
        store.wait_dispatched(60)
        found = stats(str(tmp_path / "live"), str(tmp_path / "live.html"))
        store.put(Message("Orders", b"y"))
    assert found.live and found.messages == 500
    text = (tmp_path / "live.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;k1&lt;/script&gt;" in text and "<script" not in text
    assert (found.keys["distinct"], found.keys["repeated"], found.keys["surplus"]) == (50, 50, 450)


def test_damage_is_an_error_unless_it_is_passed_over(golden: Any, tmp_path: Path) -> None:
    copy = golden("basic").copy(tmp_path)
    with (copy / "commitlog" / "00000000000000131072").open("rb+") as file:
        file.seek(40_000)
        file.write(b"\xff" * 300)
    with pytest.raises(CorruptStoreError, match="00000000000000131072"):
        stats(str(copy), str(tmp_path / "r.html"))
    assert not (tmp_path / "r.html").exists()
    found = stats(str(copy), str(tmp_path / "r.html"), fail_on_data_loss=False)
    assert found.damages == 1 and 2990 < found.messages < 3000
    assert "Skipped 1 damaged place of the log" in (tmp_path / "r.html").read_text()


def test_pages_go_only_where_they_may(golden: Any, tmp_path: Path) -> None:
    store = str(golden("basic").path)
    (tmp_path / "mine.txt").write_text("mine")
    for out, why in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "r.html", "is not a directory"),
        (tmp_path / "mine.txt", "not a report of this command"),
        (golden("basic").path / "r.html", "is inside the store"),
        (golden("basic").path / "commitlog" / "00000000000000000000", "is inside the store"),
    ):
        with pytest.raises(UsageError, match=why):
            stats(store, str(out))
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_browser_shows_the_figures(tmp_path: Path) -> None:
    browser.find()
    store = write_store(
        tmp_path / "orders", 60_000, seed=5, topics={"Orders": 6, "Payments": 3, "Shipments": 2, "Returns": 1},
        start_ms=1_700_004_600_000, duration_ms=3_600_000, waves=3, body_bytes=(100, 900),
    ).path  # fmt: skip
    out = tmp_path / "report.html"
    found = stats(str(store), str(out))
    dom = browser.dom(out, tmp_path / "profile")
    assert "Statistics of orders" in dom and dom.count("<svg") == 10  # each in two widths
    for number in (
        found.messages,
        found.topics[0]["messages"],
        found.hot_queues[0]["messages"],
        found.keys["distinct"],
    ):
        assert f"{number:,}" in dom
    out.write_text(page(replace(found, store="/var/rocketmq/store")), encoding="utf-8")  # for the docs, not of here
    bright = browser.picture(out, tmp_path / "profile", tmp_path / "light.png", *SIZE)
    dark = browser.picture(out, tmp_path / "profile", tmp_path / "dark.png", *SIZE, dark=True)
    for data in (bright, dark):
        assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == SIZE
        assert len(data) > 40_000  # an empty page is a tenth of it
    assert bright != dark
    if os.environ.get("FLINTMQ_PICTURES"):
        PICTURE.write_bytes(bright)


def test_several_stores_are_counted_together(golden: Any, tmp_path: Path) -> None:
    """Sums are those of each store by itself; queues of one topic in two stores are two queues."""
    import shutil

    alone = {}
    for broker, name in (("broker-a", "basic"), ("\u5e93\u5b58", "flags")):
        shutil.copytree(golden(name).path, tmp_path / "data" / broker / "store")
        alone[broker] = stats(str(tmp_path / "data" / broker / "store"))
    out = tmp_path / "cluster.html"
    found = stats(f"{tmp_path}/data/{{broker}}/store", str(out))
    assert found.messages == sum(one.messages for one in alone.values())
    assert found.queue_count == sum(one.queue_count for one in alone.values())
    assert {one["broker"]: one["messages"] for one in found.brokers} == {b: one.messages for b, one in alone.items()}
    assert all("broker" in one for one in found.hot_queues)
    behind = sum(lag["behind"] for one in alone.values() for lag in one.lags)
    assert sum(lag["behind"] for lag in found.lags) == behind
    assert len({(lag["group"], lag["topic"]) for lag in found.lags}) == len(found.lags), "a line a group and topic"
    text = out.read_text(encoding="utf-8")
    assert "Brokers" in text and "the stores of 2 brokers" in text and "\u5e93\u5b58" in text
    with pytest.raises(UsageError, match="inside the store"):
        stats(f"{tmp_path}/data/*/store", str(tmp_path / "data" / "broker-a" / "store" / "page.html"))


@pytest.mark.parametrize("name", ["basic", "config"])
def test_a_store_on_object_storage(golden: Any, objects: Any, tmp_path: Path, name: str) -> None:
    store, out = golden(name), tmp_path / "s3.html"
    url, config = objects.put(store.path, f"stats/{name}"), StoreConfig().with_keys({**store.config, **objects.keys})
    there = stats(url, str(out), config)
    here = stats(str(store.path), config=config)
    assert there.store == url
    assert replace(there, store=here.store, made=here.made) == here
    assert here.messages == len(store.rows) and there.lags == here.lags
    assert out.read_text(encoding="utf-8").startswith(MARK)


def test_several_stores_here_and_on_object_storage(golden: Any, objects: Any, tmp_path: Path) -> None:
    basic, config = golden("basic"), golden("config")
    manifest = tmp_path / "cluster.toml"
    url = objects.put(config.path, "stats/b")
    manifest.write_text(
        f'[[stores]]\nbroker = "a"\nstore = "{basic.path}"\n[[stores]]\nbroker = "b"\nstore = "{url}"\n',
        encoding="utf-8",
    )
    found = stats(manifest, config=StoreConfig().with_keys(objects.keys))
    assert [(one["broker"], one["messages"]) for one in found.brokers] == [
        ("a", len(basic.rows)),
        ("b", len(config.rows)),
    ]
    assert found.lags == stats(str(config.path)).lags


def test_a_report_of_an_earlier_version_is_replaced(golden: Any, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    for mark in MARKS:
        out.write_text(mark + "a report of yesterday")
        stats(str(golden("basic").path), str(out))
        assert "yesterday" not in out.read_text(encoding="utf-8")


def apart_from(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in ("made", *names)}


@pytest.mark.parametrize("kinds", [(), "all"])
def test_how_many_count_changes_nothing(tmp_path: Path, kinds: Any) -> None:
    """Beyond what a task can hold exactly, too: more keys than a sample. Queues: nearly as many as a table has."""
    path = write_store(
        tmp_path / "s", 40_000, seed=3, topics=26, queues=300, keys=2, kinds=kinds, body_bytes=(10, 2000)
    ).path
    one, many = (stats(path, workers=Threads(count)).as_dict() for count in (1, 3))
    assert not one["keys"]["exact"] and one["topic_count"] >= 26
    inexact = "missed", "keys", "ids"  # the tables of the most frequent
    assert apart_from(one, *inexact) == apart_from(many, *inexact)
    for name in ("keys", "ids"):
        assert apart_from(one[name], "top") == apart_from(many[name], "top")


def test_a_topic_with_too_many_queues_keeps_its_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintmq.lake.stats.accumulate.QUEUES", 500)
    path = write_store(tmp_path / "s", 30_000, topics=["T", "U"], queues=10_000, body_bytes=10, keys=0).path
    out = tmp_path / "r.html"
    found = stats(path, str(out))
    assert "queues" in found.missed and found.queue_count <= 1000
    assert sum(one["messages"] for one in found.topics) == found.messages == 30_000
    assert sum(one["bytes"] for one in found.topics) == found.bytes
    assert "too many queues to count each" in out.read_text(encoding="utf-8")


def test_a_clock_in_the_year_one_is_drawn(tmp_path: Path) -> None:
    """The first step of an axis of thousands of years begins before the first year that there is."""
    begin = -62_135_596_800_000
    path = write_store(tmp_path / "s", 300, start_ms=begin, duration_ms=1_700_000_000_000 - begin).path
    found = stats(path, str(tmp_path / "r.html"))
    assert found.over_time["begin"][0] < begin == found.first_time
    assert "Statistics of s" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_commands_of_a_page_do_not_depend_on_the_directory(
    golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden("basic").copy(tmp_path), golden("flags").copy(tmp_path)
    monkeypatch.chdir(tmp_path)
    stats(["basic", "flags"], "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"<code>flintmq scan {tmp_path}/basic {tmp_path}/flags --topic Orders</code>" in text
    assert re.search(rf"<code>flintmq scan {re.escape(str(tmp_path))}/(basic|flags) --topic \S+ --queue \d", text)
    stats("*", "r.html")
    assert f"flintmq scan &#39;{tmp_path}/*&#39; --topic" in (tmp_path / "r.html").read_text(encoding="utf-8")
