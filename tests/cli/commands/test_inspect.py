"""`flintmq inspect`: what is printed. What is found is tested in tests/forensics."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.message import Message
from tests.cli.conftest import Run
from tests.compat.stores import Golden
from tests.support.engine import put_messages
from tests.support.java_figures import bounds, lags, unread_below

Expected = Callable[[str, str], None]


@pytest.mark.parametrize("name", ["basic", "config", "crash", "rolled"])
def test_at_one_glance(name: str, run: Run, golden, expected: Expected) -> None:  # type: ignore[no-untyped-def]
    store = golden(name)
    result = run("inspect", store.path, *store.sets)
    assert (result.code, result.err) == (0, "")
    expected(f"inspect-{name}.txt", result.out.replace(str(store.path), "STORE"))
    assert len(result.out.splitlines()) <= 40


def test_json_is_one_object(run: Run, golden_store: Golden) -> None:
    [found] = run("inspect", golden_store.path, "--json", *golden_store.sets).rows
    assert found["root"] == str(golden_store.path)
    assert found["clean"] == (not (golden_store.path / "abort").exists())
    live = golden_store.live
    assert found["log"]["first_time"] == live[0]["store_timestamp"]
    if not golden_store.expect:
        assert found["log"]["end"] == live[-1]["physical_offset"] + live[-1]["size"]


def test_counts_are_those_of_the_log(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    [found] = run("inspect", store.path, "--json").rows
    counts: dict[str, int] = {}
    for row in store.live:
        counts[row["topic"]] = counts.get(row["topic"], 0) + 1
    assert {topic["name"]: topic["messages"] for topic in found["topics"]} == counts
    assert found["messages"] == 3000


def test_many_topics_and_queues_stay_readable(run: Run, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    for topic in range(150):
        (tmp_path / "consumequeue" / f"T{topic}" / "0").mkdir(parents=True)
    for queue in range(40):
        (tmp_path / "consumequeue" / "Wide" / str(queue)).mkdir(parents=True)
    lines = run("inspect", tmp_path).out.splitlines()
    assert len(lines) < 130
    assert "and 51 topics with fewer messages (--json shows all)" in lines
    assert len(run("inspect", tmp_path, "--json").rows[0]["topics"]) == 151
    [wide] = [line for line in run("inspect", tmp_path).out.splitlines() if line.startswith("Wide ")] or [""]
    assert not wide or wide.endswith("and 24 more")


def test_names_in_a_store_are_escaped(run: Run, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    for name in (b"\x1b[31mred", b"\xff\xfe", "\u202efdp".encode(), b"[bold]markup", b"\xc2\x9b31m"):
        folder = bytes(tmp_path) + b"/consumequeue/" + name + b"/0"
        os.makedirs(folder)
    out = run("inspect", tmp_path).out  # `run` looks for what a terminal would obey
    assert "[bold]markup " in out
    run("inspect", tmp_path, "--json")


def test_sparse_files_are_told_as_such(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """As RocketMQ makes queues and index: far larger than what they hold."""
    root = golden("poison").copy(tmp_path)
    with (root / "consumequeue" / "large").open("wb") as file:
        file.truncate(200 << 20)
    found = {folder["kind"]: folder for folder in run("inspect", root, "--json").rows[0]["folders"]}
    assert found["consumequeue"]["bytes"] >= 200 << 20 > 100 << 20 > found["consumequeue"]["on_disk"]
    shown = run("inspect", root).out
    assert "MiB, on disk " in shown and shown.count("on disk") == 1


def test_several_stores_at_one_glance(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Lag, the share of the largest queue and what is unread and goes next, over all brokers, as Java has it."""
    names = ("config", "config540")
    for name in names:
        golden(name).copy(tmp_path)
    result = run("inspect", *(tmp_path / name for name in names))
    assert (result.code, result.err) == (0, "")
    lines = {line.split()[0]: line.split() for line in result.out.splitlines() if line}
    lag, goes = 0, 0
    sizes: list[int] = []
    for name in names:
        lag += sum(one.messages for (group, _), one in lags(golden(name)).items() if group == "TagGroup")
        sizes += [high - low for (topic, _), (low, high) in bounds(golden(name)).items() if topic == "Trade"]
        [java] = [row for row in golden(name).queue_rows if row["kind"] == "store"]
        last_file = (java["max_physical_offset"] - 1) // 65536 * 65536
        unread = unread_below(golden(name), last_file)
        goes += sum(messages for (group, _), messages in unread.items() if group == "TagGroup")
    assert lines["TagGroup"][1:3] == ["2", str(lag)] and lines["TagGroup"][-1] == str(goes)
    share = f"{100 * max(sizes) / sum(sizes):.0f}"
    assert lines["Trade"][1:] == ["2", str(len(sizes)), str(sum(sizes)), share, "%"]
    assert "- (topics without a group)" in result.out
    rows = run("inspect", *(tmp_path / name for name in names), "--json").rows
    assert [(row["broker"], row["store"]) for row in rows] == [(name, str(tmp_path / name)) for name in names]


def test_a_topic_whose_name_is_no_file_name_hides_no_other(run: Run, tmp_path: Path) -> None:
    put_messages(tmp_path, [Message("T", b"x")], dev=True)
    topics = tmp_path / "config" / "topics.json"
    table = json.loads(topics.read_bytes())
    table["topicConfigTable"]["E\0vil\n"] = {"topicName": "Other", "readQueueNums": 4}
    topics.write_text(json.dumps(table))
    said = run("inspect", tmp_path, "--json")
    assert said.code == 0 and "T" in [one["name"] for one in json.loads(said.out)["topics"]]
