"""Memory of pieces is used again exactly when nothing refers to it."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from flintmq.arrow import piece_memory
from flintmq.arrow.piece_memory import PieceMemory


def place(view: memoryview) -> int:
    return pa.py_buffer(view).address


def test_memory_that_was_let_go_is_given_again() -> None:
    memory = PieceMemory()
    first = memory(1000)
    first[:] = bytes(range(250)) * 4
    assert len(first) == 1000 and first.format == "B" and not first.readonly
    at = place(first)
    second = memory(1000)
    assert place(second) != at
    del first
    third = memory(900)
    assert place(third) == at and len(third) == 900


@pytest.mark.parametrize("hold", ["slice", "buffer", "array", "cast"])
def test_memory_that_something_refers_to_is_not_given(hold: str) -> None:
    memory = PieceMemory()
    view = memory(1024)
    view[:] = b"k" * 1024
    held = {
        "slice": lambda of: of[5:10],
        "buffer": lambda of: pa.py_buffer(of).slice(5, 5),
        "array": lambda of: pa.Array.from_buffers(pa.uint8(), 4, [None, pa.py_buffer(of[8:])]).slice(1),
        "cast": lambda of: of.cast("q")[3:],
    }[hold](view)
    at = place(view)
    del view
    others = [memory(1024) for _ in range(3)]
    for other in others:
        other[:] = b"x" * 1024
    assert all(place(other) != at for other in others)
    assert set(bytes(pa.py_buffer(held) if hold != "array" else held.buffers()[1])) == {ord("k")}
    del held
    assert place(memory(1024)) == at


def test_memory_much_larger_than_asked_is_kept_for_others() -> None:
    """A batch would hold all of it."""
    memory = PieceMemory()
    large = place(memory(4096))
    assert place(memory(2047)) != large
    assert place(memory(2048)) == large


def test_what_is_watched_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_memory, "MOST", 10_000)
    before = pa.total_allocated_bytes()
    memory = PieceMemory()
    views = [memory(4096) for _ in range(20)]
    assert pa.total_allocated_bytes() - before >= 20 * 4096
    views.clear()
    assert pa.total_allocated_bytes() - before <= 10_000 + 4096
    assert len(memory(20_000)) == 20_000, "more than all that is watched"
    del memory
    assert pa.total_allocated_bytes() == before


def test_threads_never_get_the_same_memory() -> None:
    memory, wrong = PieceMemory(), []

    def use(number: int) -> None:
        for _ in range(300):
            view = memory(64)
            view[:] = bytes([number]) * 64
            if bytes(view) != bytes([number]) * 64:
                wrong.append(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
