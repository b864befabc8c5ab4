"""Following a log from its end, where no record begins yet."""

import shutil
import threading

import pytest

from flintmq import MessageStore
from flintmq.message import Message
from flintmq.store.commitlog import resync
from flintmq.store.view import open_store
from tests.support.engine import KEYS, open_small


@pytest.mark.parametrize("ahead", [0, 150])
def test_following_from_the_end_gives_what_comes_next(tmp_path, ahead):
    """Not what comes in the next file of the log; from beyond the end, what comes from there on."""
    with open_small(tmp_path) as store:
        store.put(Message("T", b"old"))
    with open_store(tmp_path, set=KEYS) as view:
        stop, got = threading.Event(), []
        begun = threading.Event()

        class Watched(threading.Event):
            def wait(self, timeout=None):
                begun.set()  # the end was reached once, before anything new is there
                return stop.wait(timeout)

            def is_set(self):
                return stop.is_set()

        def follow():
            for message in view.follow(view.max_physical_offset + ahead, 10, Watched()):
                got.append((message.physical_offset, message.body))
                if message.body == b"last":
                    stop.set()

        thread = threading.Thread(target=follow)
        thread.start()
        assert begun.wait(10)
        with open_small(tmp_path) as store:
            offset = view.max_physical_offset + ahead
            put = [
                store.put(Message("T", body)) for body in (b"a", b"b", b"c", bytes(3000), b"d", bytes(3000), b"last")
            ]
        thread.join(20)
        stop.set()
        assert [at for at, _ in got] == [r.physical_offset for r in put if r.physical_offset >= offset]


class Steps:
    """A `stop` event that does one thing at each wait, in a thread as another program would, and then ends."""

    def __init__(self, *things):
        self.things = list(things)

    def is_set(self):
        return False

    def wait(self, _seconds):
        if not self.things:
            return True
        thread = threading.Thread(target=self.things.pop(0))
        thread.start()
        thread.join()
        return False


def searches(monkeypatch):
    """The positions where a search for a record after a stop began; at 0 it looks for the last file with records."""
    begun, search = [], resync._Search.run

    def counted(searching, position, stop):
        begun.extend([position] if position else [])
        return search(searching, position, stop)

    monkeypatch.setattr(resync._Search, "run", counted)
    return begun


@pytest.mark.parametrize("from_the_end", [True, False])
def test_later_looks_at_a_live_store_do_not_search_the_zeros_again(tmp_path, monkeypatch, from_the_end):
    """Its writer has allocated tens of MiB of zeros: to read them five times a second takes a process its time."""
    begun = searches(monkeypatch)
    with MessageStore(tmp_path / "store") as store:
        store.put(Message("T", b"first"))
        view = open_store(tmp_path / "store")
        end, first = view.max_physical_offset, len(begun)
        put = [lambda: None, lambda: store.put(Message("T", b"second")), lambda: None, lambda: None]
        found = [message.body for message in view.follow(end if from_the_end else 0, 1, Steps(*put))]
    assert found == [b"first", b"second"][from_the_end:]
    assert first == 1 and len(begun) == 2, "one search of the view, and one of the follower's first look"


def test_a_live_store_that_was_made_anew_is_searched_again(tmp_path, monkeypatch):
    """What an earlier look saw says nothing of another log."""
    begun, path = searches(monkeypatch), tmp_path / "store"
    stores = [MessageStore(path)]
    for number in range(3):
        stores[0].put(Message("T", b"%d" % number))
    view = open_store(path)
    end = view.max_physical_offset

    def make_anew():
        stores.pop().close()
        shutil.rmtree(path)
        stores.append(MessageStore(path))
        stores[0].put(Message("Another", b"x" * 40))

    try:
        assert list(view.follow(end, 1, Steps(make_anew))) == []
        assert len(begun) == 3, "by the view and by both looks"
    finally:
        stores.pop().close()
