import asyncio
from pathlib import Path

import pytest

from flintmq.errors import UsageError
from flintmq.message import Message
from flintmq.store.append.stats import LABELS, WaitTimes, process_memory
from flintmq.store.message_store import MessageStore
from tests.store.services.test_retention import Disk
from tests.support.engine import FILE_SIZE, KEYS, message, open_small, put_all, stored
from tests.support.faults import Faulty


def test_puts_are_counted_since_the_store_was_opened(tmp_path: Path):
    stored(tmp_path, 7)
    with open_small(tmp_path) as store:
        assert (store.stats().puts, store.stats().put_bytes, store.stats().puts_by_topic) == (0, 0, {})
        results = put_all(store, 5) + put_all(store, 3, topic="库存", queue_id=2)
        store.put(Message("a/b"))
        store.wait_dispatched(60)
        stats = store.stats()
        assert stats.puts == 8 and stats.puts_by_topic == {"T": 5, "库存": 3}
        assert stats.puts_refused == {"MESSAGE_ILLEGAL": 1}
        assert stats.put_bytes == sum(r.size for r in results)
        assert stats.put_average_size == stats.put_bytes / 8
        assert stats.log_bytes == results[-1].physical_offset + results[-1].size
        assert stats.dispatch_behind_bytes == 0 and 0 < stats.seconds < 60
    with pytest.raises(UsageError):
        store.stats()


def test_behind_is_told_by_positions(tmp_path: Path):
    never = "100000"
    keys = {"commitIntervalCommitLog": never, "commitCommitLogThoroughInterval": never}
    with MessageStore(
        tmp_path, config=KEYS | keys | {"transientStorePoolEnable": "true", "flushIntervalCommitLog": never}
    ) as store:
        size = put_all(store, 1)[0].size
        stats = store.stats()
        assert (stats.commit_behind_bytes, stats.flush_behind_bytes) == (size, size)
        assert stats.pool_buffers_free in (3, 4), "one in use, one for the file ahead once that is made"
        store.wait_dispatched(60)
        assert (store.stats().commit_behind_bytes, store.stats().flush_behind_bytes) == (0, size)
        store.flush()
        assert store.stats().flush_behind_bytes == 0
    with open_small(tmp_path / "another") as store:
        assert store.stats().pool_buffers_free == -1


@pytest.mark.parametrize(
    ("ms", "label"),
    [(0, "<=0ms"), (0.9, "<=0ms"), (1, "0~10ms"), (10, "0~10ms"), (11, "10~50ms"), (1500, "1~2s"), (20_000, "10s~")],
)
def test_the_buckets_are_upstreams(ms: float, label: str):
    times = WaitTimes()
    times.add(ms / 1000)
    assert dict(zip(LABELS, times.counts, strict=True)) == {name: int(name == label) for name in LABELS}


def test_a_group_counts_as_its_members_do():
    one, together = WaitTimes(), WaitTimes()
    for group in ([0.5, 0.3, 0.02, 0.0001], [0.0005] * 7, [], [0.003]):
        together.add_all(group)
        for seconds in group:
            one.add(seconds)
    assert together.counts == one.counts and sum(one.counts) == 12


def test_every_put_is_in_one_bucket(tmp_path: Path):
    effects = Faulty()
    with open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH") as store:
        put_all(store, 10)

        async def main() -> None:
            await asyncio.gather(*[store.put_async(message(n)) for n in range(10)])

        asyncio.run(main())
        stats = store.stats()
        assert sum(stats.put_times.values()) == stats.puts == 20
        assert sum(store._parts.flush.times.counts) == 20, "each waited for the disk"


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc to look into")
@pytest.mark.parametrize("access", [{}, {"transientStorePoolEnable": "true", "transientStorePoolSize": "2"}])
def test_mapped_files_are_those_that_linux_has_mapped(tmp_path: Path, access: dict[str, str]):
    """Counted anew by each answer: more with each file, fewer once retention has taken some, none of spare files."""

    def mapped(store: MessageStore) -> tuple[int, int]:
        folder, found = str(tmp_path / "commitlog"), {}
        for line in Path("/proc/self/maps").read_text().splitlines():
            places, _, name = line.partition(" ")
            if folder in name and int(name[-20:]) <= store._parts.files.last.start:
                begin, end = (int(place, 16) for place in places.split("-"))
                found[name[-20:]] = found.get(name[-20:], 0) + end - begin
        return len(found), sum(found.values())

    def told(store: MessageStore) -> tuple[int, int]:
        stats = store.stats()
        return stats.mapped_files, stats.mapped_virtual_bytes

    with open_small(tmp_path, Disk(used=86), **access) as store:
        assert told(store) == (0, 0)
        for count in (1, 3, 6):
            while len(store._parts.files.files) < count:
                put_all(store, 1, size=700)
            assert told(store) == mapped(store) == (count, count * FILE_SIZE)
        store.flush()
        assert store.wait_dispatched(60)
        store._parts.checkpointer.write()
        store._parts.retention.clean_once()
        assert told(store) == mapped(store) == (1, FILE_SIZE)


def test_memory_is_what_linux_says():
    class Told(Faulty):
        def read_proc(self, path: str) -> str:
            assert path == "/proc/self/status"
            return "Name:\tx\nVmRSS:\t  60 kB\nRssAnon:\t  10 kB\nRssFile:\t  20 kB\nRssShmem:\t  30 kB\n"

    assert process_memory(Told()) == (10 << 10, 50 << 10)
