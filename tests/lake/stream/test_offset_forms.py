"""The offset of an only store is kept without a name; that of a list names each broker, also if there is only one."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.lake.stream.members import StoresStream
from flintmq.lake.stream.options import StreamOptions
from flintmq.testing import write_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_store(tmp_path / "a", 20)
    return tmp_path / "a"


@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "7"}])
def test_the_forms(store: Path, limit: dict[str, str]) -> None:
    stream = StoresStream(StreamOptions.parse({"path": str(store), **limit}))
    offsets = [stream.initial()]
    while (end := stream.next_end(offsets[-1])) != offsets[-1]:
        offsets.append(end)
    assert len(offsets) == (4 if limit else 2)
    assert not any(isinstance(value, dict) for offset in offsets for value in offset.values())
    assert sum(number for key, number in offsets[-1].items() if "/" in key) == 20
    several = StoresStream(StreamOptions.parse({"path": str(store.parent / "*"), **limit}))
    assert several.initial() == {"a": offsets[0]}
    assert several.next_end({"a": offsets[0]}) == {"a": offsets[1]}
    (member, task), *_ = stream.tasks(offsets[0], offsets[1])
    (named, same), *_ = several.tasks({"a": offsets[0]}, {"a": offsets[1]})
    assert (member.words, named.words) == ({}, {"broker": "a", "store": str(store)}) and task == same


def test_the_progress_of_an_only_store_is_its_own(store: Path) -> None:
    one = StoresStream(StreamOptions.parse({"path": str(store)})).progress()
    several = StoresStream(StreamOptions.parse({"path": str(store.parent / "*")})).progress()
    ends = {name: number for name, number in one.items() if "/" in name}
    assert several["a"] == ends and several["lagMessages"] == one["lagMessages"] == 20
    assert "avgOffsetsBehindLatest" in one and "avgOffsetsBehindLatest" not in several
