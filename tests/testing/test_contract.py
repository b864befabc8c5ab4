"""The contract sees each of the wrongs that it names."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.testing import contract, slow_read
from flintmq.testing.contract import SMALL, Book, PutLedger, _lacks_bytes, check_contract, digest_of, read_book
from tests.support.makers import flip


def lived(root: Path, count: int = 60) -> Book:
    """A store of one life, and its book."""
    book = Book()
    with MessageStore(root, config=SMALL, unique_keys=False) as store:
        for n in range(count):
            identity = f"0-{n}"
            message = Message("T", b"x" * (n * 10), tags="t", keys=identity, queue_id=n % 2)
            book.sent[identity] = {"digest": digest_of(message)}
            r = store.put(message)
            book.answers[identity] = {
                "outcome": r.outcome.value, "place": r.physical_offset, "size": r.size, "time": r.store_timestamp,
                "queue_offset": r.queue_offset, "committed": None,
            }  # fmt: skip
    return book


def test_an_honest_store_keeps_it(tmp_path: Path):
    found = check_contract(tmp_path, lived(tmp_path))
    assert found.wrong == {} and found.acknowledged == found.stored == 60, found


WRONGS: dict[str, dict[str, Any]] = {
    "lost": {"outcome": "ok", "place": 1 << 20, "size": 100, "time": 5, "queue_offset": 3},
    "phantom": {"outcome": "failed"},
    "altered": {"outcome": "ok", "place": 0, "size": 1, "time": 5, "queue_offset": 0},
}


@pytest.mark.parametrize("wrong", WRONGS)
def test_an_answer_that_the_store_does_not_keep_is_seen(tmp_path: Path, wrong: str):
    book = lived(tmp_path, 5)
    identity = "0-99" if wrong == "lost" else "0-3"
    book.sent.setdefault(identity, {"digest": ""})
    book.answers[identity] = WRONGS[wrong]
    assert check_contract(tmp_path, book).wrong == {wrong: 1}


def test_another_content_and_what_came_back_are_seen(tmp_path: Path):
    book = lived(tmp_path, 5)
    book.sent["0-2"]["digest"] = "another"
    book.gone.add("0-4")
    assert check_contract(tmp_path, book).wrong == {"altered": 1, "phantom": 1}


def test_what_was_not_promised_may_be_missing_at_the_end_only(tmp_path: Path):
    book = lived(tmp_path, 5)
    for identity, place in (("0-98", 1 << 20), ("0-99", 10)):
        book.sent[identity] = {"digest": ""}
        book.answers[identity] = {"outcome": "ok", "place": place, "size": 100, "committed": 0}
    book.safe["0"] = 0
    found = check_contract(tmp_path, book)
    assert found.wrong == {"lost": 1} and found.uncommitted == 1, found


def test_the_price_of_a_life_lies_where_the_next_one_went_on(tmp_path: Path):
    """Two lives without a look in between: what the first one lost at its end, the second one has written over."""
    book = lived(tmp_path, 5)
    with MessageStore(tmp_path, config=SMALL, unique_keys=False) as store:
        message = Message("T", b"y", keys="1-0", queue_id=0)
        r = store.put(message)
    book.sent |= {"0-99": {"digest": ""}, "1-0": {"digest": digest_of(message)}}
    book.answers["1-0"] = {"outcome": "ok", "place": r.physical_offset, "size": r.size, "time": r.store_timestamp,
                        "queue_offset": r.queue_offset, "committed": None}  # fmt: skip
    last = book.answers["0-4"]["place"]
    for place, wrong in ((r.physical_offset, {}), (last, {"lost": 1})):
        book.answers["0-99"] = {"outcome": "ok", "place": place, "size": 100, "committed": 0}
        book.safe["0"] = 0
        found = check_contract(tmp_path, book)
        assert (found.wrong, found.uncommitted) == (wrong, 0 if wrong else 1), found


@pytest.mark.parametrize("safe", [0, 1 << 62], ids=["unsynced", "synced"])
def test_a_store_time_that_lacks_bytes_is_a_price_of_what_was_not_promised_only(tmp_path: Path, safe: int):
    book = lived(tmp_path, 5)
    book.answers["0-3"]["time"] |= 0xFF << 56
    book.answers["0-3"]["time"] -= 1 << 64  # the stored one has a zero where this has a byte
    book.answers["0-3"]["committed"], book.safe["0"] = 0, safe
    found = check_contract(tmp_path, book)
    assert (found.torn, found.wrong) == ((0, {"altered": 1}) if safe else (1, {}))


@pytest.mark.parametrize(
    ("now", "lacks"),
    [
        (0x0000_018C_0000_0000, True),
        (0x0000_0000_1234_5678, True),
        (0x0000_018C_0000_5678, True),
        (0x0000_0100_1234_5600, False),
        (0x0000_018C_1234_5679, False),
        (0x0000_018C_1234_5678, False),
    ],
)
def test_a_torn_time_lacks_neighbouring_bytes_and_no_others(now: int, lacks: bool):
    assert _lacks_bytes(now, 0x0000_018C_1234_5678) is lacks


@pytest.mark.parametrize(("committed", "covered"), [(0, False), (None, False), (0, True)])
def test_a_queue_id_that_became_zero_is_a_price_of_what_was_not_promised_only(tmp_path: Path, committed, covered):
    book, keys = Book(safe={"0": 0}), SMALL | {"enabledAppendPropCRC": covered}
    sent = Message("T", b"x", keys="0-0", queue_id=3, tags="a", properties={"own": "1"})
    book.sent["0-0"] = {"digest": digest_of(sent)}
    with MessageStore(tmp_path, config=keys, unique_keys=False) as store:
        r = store.put(Message("T", b"x", keys="0-0", queue_id=0, tags="a", properties={"own": "1"}))
    book.answers["0-0"] = {"outcome": "ok", "place": 0, "size": r.size, "time": r.store_timestamp,
                        "queue_offset": 0, "committed": committed}  # fmt: skip
    found = check_contract(tmp_path, book, keys)
    assert (found.torn, found.wrong) == ((1, {}) if committed == 0 and not covered else (0, {"altered": 1}))


def test_where_a_checksum_covers_the_whole_record_no_time_is_torn(tmp_path: Path):
    book, keys = Book(), SMALL | {"enabledAppendPropCRC": True}
    with MessageStore(tmp_path, config=keys, unique_keys=False) as store:
        message = Message("T", b"x", keys="0-0", queue_id=0)
        book.sent["0-0"] = {"digest": digest_of(message)}
        r = store.put(message)
    book.answers["0-0"] = {"outcome": "ok", "place": 0, "size": r.size, "time": r.store_timestamp | 1 << 60,
                        "queue_offset": 0, "committed": 0}  # fmt: skip
    book.safe["0"] = 0
    assert check_contract(tmp_path, book, keys).wrong == {"altered": 1}


@pytest.mark.parametrize("kind", ["unit", "item"])
def test_derived_files_that_say_something_else_are_seen(tmp_path: Path, kind: str):
    """Changed while the store is open, so that no recovery mends it."""
    book = lived(tmp_path, 5)
    queue, index = tmp_path / "consumequeue/T/0" / ("0" * 20), next((tmp_path / "index").iterdir())

    def spoil(store: MessageStore) -> None:
        path, at = (queue, 7) if kind == "unit" else (index, 40 + 4 * 8 + 20 + 11)
        flip(path, at)

    assert check_contract(tmp_path, book, opened=spoil).wrong.keys() >= {"derived"}


def test_a_book_of_a_ledger_knows_how_far_each_life_was_safe(tmp_path: Path):
    ledger = PutLedger(tmp_path / "ledger")
    ledger.line(sent="0-1", digest="d")
    ledger.line(told="0-1", outcome="ok", committed=100)
    ledger.line(sent="0-2", digest="d")
    ledger.line(told="0-2", outcome="ok", committed=80)
    assert read_book(tmp_path / "ledger").safe == {"0": 100}


def test_the_old_path_answers_and_warns(monkeypatch: pytest.MonkeyPatch):
    for name in ("sim", "sim.contract", "sim.slow_read"):
        monkeypatch.delitem(sys.modules, f"flintmq.testing.{name}", raising=False)
    with pytest.warns(DeprecationWarning, match=r"is flintmq\.testing\.contract now"):
        assert importlib.import_module("flintmq.testing.sim.contract") is contract
    assert importlib.import_module("flintmq.testing.sim.slow_read") is slow_read
