"""Following a log from its end, where no record begins yet."""

import threading

import pytest

from flintmq.message import Message
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
