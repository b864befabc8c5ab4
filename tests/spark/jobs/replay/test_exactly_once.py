"""Each message once: what a run that died has put is found, and not put again."""

from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreAccessError, StoreError, UnsupportedFormatError
from flintmq.message import Message
from flintmq.spark.jobs.replay import live
from flintmq.spark.jobs.replay.exactly_once import FILE_NAME, WriterIds, WriterTail, is_same, put_all
from flintmq.store.message_store import MessageStore
from tests.spark.jobs.replay.replaying import SMALL, bulk, held, without_offsets


def message(number: int, **named: Any) -> Message:
    given = {"queue_id": number % 3, "properties_bytes": f"n\x01{number}\x02".encode(), "born_timestamp": 1000 + number}
    return Message("T", b"body %d" % number, **{**given, **named})


def test_the_tail_finds_a_prefix_between_what_others_put(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "s", dev=True, unique_keys=False) as store:
        store.put(message(0))
        begin = store.put(message(-1)).physical_offset
        put_all(store, [message(1), Message("Other", b"x"), message(2), message(3), Message("T", b"y")], "abcde")
        end = put_all(store, [message(9)], "a").physical_offset
        tail = WriterTail(str(tmp_path / "s"), begin, end, store.config)
        assert [tail.holds(message(n)) for n in (1, 2, 3, 4, 1)] == [True, True, True, False, False] and tail.over
        assert WriterTail(str(tmp_path / "s"), end, end, store.config).over


@pytest.mark.parametrize(
    "other",
    [
        {"queue_id": 2},
        {"flag": 1},
        {"born_timestamp": 7},
        {"properties_bytes": b"n\x012\x02"},
        {"properties_bytes": b""},
    ],
)
def test_a_message_that_differs_is_another(tmp_path: Path, other: dict[str, Any]) -> None:
    with MessageStore(tmp_path / "s", dev=True, unique_keys=False) as store:
        store.put(message(1))
        assert store.wait_dispatched(60)
        [found] = store.get("T", 1, 0).messages
    assert is_same(message(1), found) and is_same(message(1, born_timestamp=None), found)
    assert not is_same(message(1, **other), found)


def test_the_ledger_keeps_and_forgets(tmp_path: Path) -> None:
    ledger = WriterIds(str(tmp_path))
    assert ledger.get("a") is None
    ledger.set("sink a", {"batch": 1})
    ledger.set("replay 库存", {"rows": 2})
    again = WriterIds(str(tmp_path))
    assert again.get("replay 库存") == {"rows": 2} and again.of("sink ") == {"sink a": {"batch": 1}}
    again.set("sink a", None)
    assert WriterIds(str(tmp_path)).of("") == {"replay 库存": {"rows": 2}}
    for text in ("{", '{"format": 0, "givers": {}}', "[]"):
        (tmp_path / FILE_NAME).write_text(text)
        with pytest.raises(StoreAccessError, match=FILE_NAME):
            WriterIds(str(tmp_path))
    (tmp_path / FILE_NAME).write_text('{"format": 3, "givers": {}}')
    with pytest.raises(UnsupportedFormatError, match=f"{FILE_NAME}: format 3 is not known here: .* upgrade this one"):
        WriterIds(str(tmp_path))


def test_a_refused_message_is_named(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "s", dev=True, unique_keys=False) as store:
        with pytest.raises(StoreError, match="the second: MESSAGE_ILLEGAL"):
            put_all(store, [message(1), Message("a/b", b"")], ["the first", "the second"])


@pytest.mark.parametrize("stop", [1, 700, 1000, 1499, 2999])
def test_a_replay_that_died_is_carried_on_exactly(
    golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """The process dies behind `stop` puts, with all or none of the progress since the beginning on disk; and others
    put messages before the next run."""
    source, root = golden("basic").path, tmp_path / "new"
    monkeypatch.setattr(live, "SAVE_ROWS", 600)
    monkeypatch.setattr(live, "ROWS_AT_ONCE", 100)
    real, left = live.put_all, stop

    def dying(store: Any, messages: list[Message], what: Any) -> Any:
        nonlocal left
        if len(messages) <= left:
            left -= len(messages)
            return real(store, messages, what)
        real(store, messages[:left], what) if left else None
        raise KeyboardInterrupt

    monkeypatch.setattr(live, "put_all", dying)
    with pytest.raises(KeyboardInterrupt):
        bulk(source, root, live=True)
    monkeypatch.setattr(live, "put_all", real)
    with MessageStore(root, SMALL, unique_keys=False) as store:
        store.put(Message("Foreign", b"between"))
    done = bulk(source, root)
    assert (done.rows, done.total) == (3000 - stop, 3000) and (stop < 700 or done.found < stop)
    found, want = without_offsets(held(root)), without_offsets(held(source, StoreConfig()))
    assert len(found.pop(("Foreign", 0))) == 1
    assert {q: [r[:-1] for r in rows] for q, rows in found.items()} == {
        q: [r[:-1] for r in rows] for q, rows in want.items()
    }
