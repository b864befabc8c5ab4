"""Two counts compared: what changed, what makes them unlike, and files that are no count."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore
from flintmq.errors import UsageError
from flintmq.lake.stats.compare import ROWS_MOST, compared, earlier
from flintmq.lake.stats.page import page
from flintmq.lake.stats.run import stats
from flintmq.lake.stats.statistics import Statistics


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Statistics]:
    """A store that was counted twice, with messages in between: the store, the first count, and the second."""
    folder = tmp_path_factory.mktemp("counts")
    store, older = folder / "store", folder / "older.json"
    with MessageStore(store, dev=True) as engine:
        for number in range(30):
            engine.put(Message("Orders", b"x", keys=f"k{number}"))
            engine.put(Message("Old<b>", b"x"))
    older.write_text(json.dumps(stats(store).as_dict()))
    with MessageStore(store, dev=True) as engine:
        for _ in range(12):
            engine.put(Message("Orders", b"x" * 500))
        engine.put(Message("New", b"y"))
    return store, older, stats(store, compare=str(older))


def test_what_changed_is_said(counts: tuple[Path, Path, Statistics]) -> None:
    _, older, found = counts
    change = found.compared
    assert change is not None
    figures = {one["figure"]: (one["before"], one["now"]) for one in change["figures"]}
    assert figures["messages"] == (60, 73) and figures["topics"] == (2, 3) and figures["distinct_keys"] == (30, 30)
    assert change["topics"] == [
        {"topic": "Orders", "before": 30, "now": 42},
        {"topic": "New", "before": None, "now": 1},
    ]
    assert (change["topics_changed"], change["groups"], change["notes"]) == (2, [], [])
    assert (change["path"], change["store"]) == (str(older), found.store)
    text = page(found)
    assert "What changed" in text and "+13 (+21.7%)" in text and ">new<" in text


def test_nothing_changed(counts: tuple[Path, Path, Statistics]) -> None:
    store, _, _ = counts
    before, now = (stats(store).as_dict() for _ in range(2))
    change = compared({**before, "path": "p"}, now)
    assert change["topics"] == change["groups"] == change["notes"] == []
    assert all(one["before"] == one["now"] for one in change["figures"])


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({"store": "/other"}, "another store, /other"),
        ({"version": "9.9.9"}, "by FlintMQ 9.9.9"),
        ({"version": None, "asked": None, "behind": None, "group_count": None}, "did not give its version"),
        ({"asked": {"topics": ["Orders"], "since": None, "until": None}}, "other topics or times"),
        ({"end": 1 << 40}, "was cut, or is another log"),
        ({"made": 1 << 60}, "later than this one"),
        ({"topics": [{"topic": f"t{i}", "messages": 1} for i in range(ROWS_MOST)]}, "only the 200 largest"),
        ({"keys": {"distinct": 5, "surplus": 1, "exact": False}}, "are estimates"),
    ],
)
def test_what_makes_two_counts_unlike_is_noted(
    counts: tuple[Path, Path, Statistics], tmp_path: Path, given: dict[str, Any], note: str
) -> None:
    store, older, _ = counts
    changed = {name: value for name, value in (json.loads(older.read_text()) | given).items() if value is not None}
    (tmp_path / "o.json").write_text(json.dumps(changed))
    found = stats(store, compare=str(tmp_path / "o.json"))
    assert found.compared is not None
    [text] = found.compared["notes"]
    assert note in text and note.split(",")[0] in page(found)


def test_a_topic_that_a_full_list_lacks_is_not_gone() -> None:
    full = [{"topic": f"t{i}", "messages": 9} for i in range(ROWS_MOST)]
    base = stats_of({"topics": full})
    now = copy.deepcopy(base)
    now["topics"] = [{"topic": "small", "messages": 1}, *full[1:], {"topic": "t0", "messages": 8}]
    assert [one["topic"] for one in compared({**base, "path": "p"}, now)["topics"]] == ["t0"]


def stats_of(more: dict[str, Any]) -> dict[str, Any]:
    from flintmq.lake.stats.accumulate import Tally
    from flintmq.lake.stats.statistics import statistics

    return {**statistics(Tally(), []).as_dict(), **more}


WRONG = {
    "empty": b"",
    "no json": b"store     /tmp/x\n",
    "a list": b"[1]",
    "two lines": b"{}\n{}\n",
    "another command's": b'{"path":"x","messages":3}',
    "deep": b"[" * 100_000,
    "no utf-8": b'"\xff\xfe"',
    "nan": b"NaN",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_count_is_refused_in_a_line(tmp_path: Path, name: str) -> None:
    file = tmp_path / "o.json"
    file.write_bytes(WRONG[name])
    with pytest.raises(UsageError, match="is not what flintmq stats --json prints") as caught:
        earlier(str(file))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"messages": "3"}, {"messages": True}, {"messages": None}, {"messages": 10**4000}, {"bytes": float("nan")},
        {"bytes": float("inf")}, {"store": 5}, {"topics": {}}, {"topics": [5]}, {"topics": [{"topic": "x"}]},
        {"topics": [{"topic": [], "messages": 1}]}, {"lags": None}, {"rate": []}, {"sizes": "p50"}, {"version": 5},
        {"made": "now"}, {"made": None},
    ],
)  # fmt: skip
def test_values_of_another_kind_are_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    (tmp_path / "o.json").write_text(json.dumps(stats_of(given)))
    with pytest.raises(UsageError, match="is not what flintmq stats --json prints"):
        earlier(str(tmp_path / "o.json"))


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # would be read for ever
    for path in (tmp_path / "none.json", tmp_path, tmp_path / "pipe"):
        what = "is no regular file" if path.exists() else "there is no such file"
        with pytest.raises(UsageError, match=what):
            earlier(str(path))
