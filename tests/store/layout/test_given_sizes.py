"""What the files of a store show of the sizes that were given; the doors: tests/cli/test_given_sizes.py."""

from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError, NotAStoreError
from flintmq.format import index
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.file_geometry import IndexGeometry, index_division, index_files, index_geometry
from flintmq.store.layout.given_sizes import open_root, refuse_other_sizes
from tests.support.engine import KEYS, put_all, stored

QUEUE = "mappedFileSizeConsumeQueue"


def queues(root: Path, kind: str, **topics: list[int]) -> None:
    """Queue 0 of each topic, with files of these lengths."""
    for topic, sizes in topics.items():
        folder = root / kind / topic / "0"
        folder.mkdir(parents=True)
        for number, size in enumerate(sizes):
            (folder / f"{number * 400:020d}").write_bytes(bytes(size))


def refused(root: Path, **given: object) -> bool:
    try:
        refuse_other_sizes(str(root), StoreConfig.from_keys(given), REAL)
    except ConfigError:
        return True
    return False


@pytest.mark.parametrize(
    ("topics", "same", "other"),
    [
        ({"a": [400, 400]}, [400, 391, 381], [380, 401, 6000, 20]),
        ({"a": [400, 400, 0]}, [400], [200]),  # the creation of the last one was interrupted
        ({"a": [400, 400, 60]}, [400], [60]),  # and is cut short
        ({"a": [], "b": [0], "c": [19]}, [400, 20, 6000], []),  # nothing that holds a unit
        ({"a": [401], "b": [39]}, [400, 420, 6000], []),  # not whole units: RocketMQ makes no such file
        ({"a": [200], "b": [400, 400], "c": [400]}, [400], [200]),  # one topic's differ: `verify` tells
        ({f"empty{n}": [] for n in range(150)} | {"full": [400]}, [400], [200]),  # the first hundred show nothing
    ],
)
def test_the_length_that_most_queue_files_have(
    tmp_path: Path, topics: dict[str, list[int]], same: list[int], other: list[int]
):
    queues(tmp_path, "consumequeue", **topics)
    assert [size for size in [*same, *other] if refused(tmp_path, **{QUEUE: size})] == other


def test_other_kinds_have_no_whole_units(tmp_path: Path):
    queues(tmp_path, "batchconsumequeue", a=[500])
    queues(tmp_path, "consumequeue_ext", a=[301])
    for key, size in (("mapperFileSizeBatchConsumeQueue", 500), ("mappedFileSizeConsumeQueueExt", 301)):
        assert not refused(tmp_path, **{key: size}) and refused(tmp_path, **{key: size + 1})


def test_a_log_in_several_directories(tmp_path: Path):
    for number in range(4):
        folder = tmp_path / "ab"[number % 2]
        folder.mkdir(exist_ok=True)
        (folder / f"{number * 4096:020d}").write_bytes(bytes(4096 if number < 3 else 100))
    places = {"storePathCommitLog": str(tmp_path / "a"), "readOnlyCommitLogStorePaths": str(tmp_path / "b")}
    assert not refused(tmp_path, mappedFileSizeCommitLog=4096, **places)
    assert refused(tmp_path, mappedFileSizeCommitLog=8192, **places)
    assert not refused(tmp_path, mappedFileSizeCommitLog=8192), "commitlog/ is not there"
    with pytest.raises(NotAStoreError):
        refused(tmp_path, mappedFileSizeCommitLog=8192, readOnlyCommitLogStorePaths="/no/such/directory")


def test_a_size_that_nobody_gave_is_not_compared(tmp_path: Path):
    """The constructor's values and `dev=True` are no keys of a user: files that are there win."""
    stored(tmp_path, 30)
    open_root(tmp_path, StoreConfig(mapped_file_size_consume_queue=6000), REAL)
    with MessageStore(tmp_path, dev=True) as store:
        shown = {key: store.config.key(key) for key in (QUEUE, "mappedFileSizeCommitLog")}
        assert shown == {key: KEYS[key] for key in shown}
        put_all(store, 30)
        assert store.wait_dispatched(60) and store.get("T", 0, 59).messages[0].queue_offset == 59
        assert all(len(store.query("T", f"k{number}")) == 2 for number in range(30))
    with pytest.raises(ConfigError, match=f"{QUEUE}=400: the store's files have 200 bytes"):
        MessageStore(tmp_path, {QUEUE: 400}, dev=True)


@pytest.fixture
def divided(tmp_path: Path) -> Callable[..., Path]:
    """A store whose index has this division, with 31 keys."""

    def make(slots: int, items: int) -> Path:
        root = tmp_path / f"{slots}-{items}"
        with MessageStore(root, KEYS | {"maxHashSlotNum": slots, "maxIndexNum": items}, unique_keys=False) as store:
            for number in range(31):
                store.put(Message("T", b"x", keys=f"k{number}"))
            assert store.wait_dispatched(60)
        return root

    return make


@pytest.mark.parametrize("shown", [(32, 128), (7, 50), (500, 2000)])
def test_the_division_of_index_files(divided: Callable[..., Path], shown: tuple[int, int]):
    root, (slots, items) = divided(*shown), shown
    assert not refused(root, maxHashSlotNum=slots, maxIndexNum=items)
    assert not refused(root, maxHashSlotNum=slots) and not refused(root, maxIndexNum=items)
    for other in ((slots + 1, items), (slots - 1, items - 1), (10 * slots, 10 * items)):
        assert refused(root, maxHashSlotNum=other[0], maxIndexNum=other[1]), other
    assert refused(root, maxHashSlotNum=slots + 1) and refused(root, maxIndexNum=10 * items)
    if items == 4 * slots:  # then the items show which of the divisions that give this length it is
        assert refused(root, maxHashSlotNum=slots + 5, maxIndexNum=items - 1)
        assert refused(root, maxHashSlotNum=slots, maxIndexNum=items + 1), "and that the file was not cut by an item"
        assert refused(root, maxHashSlotNum=slots - 5) and refused(root, maxIndexNum=items + 1)


def test_index_files_of_several_divisions_are_read_each_by_its_own(divided: Callable[..., Path], tmp_path: Path):
    """As a key that was changed left them, for RocketMQ does not notice."""
    ours, older = divided(32, 128), divided(500, 2000)
    for path in (older / "index").iterdir():
        path.rename(ours / "index" / f"{int(path.name) - 10**15:017d}")
    given = StoreConfig.from_keys({"maxHashSlotNum": 32, "maxIndexNum": 128})
    for file in index_files(str(ours)):
        with REAL.reading(file.path) as fd:
            shape = index_geometry(file.path, file.size, given, fd)
        assert shape == (IndexGeometry(32, 128) if file.size == index.file_size(32, 128) else IndexGeometry(500, 2000))
    assert index_division(index_files(str(ours)), given, REAL) == (IndexGeometry(32, 128), [])


def test_an_index_file_that_was_cut_short_contradicts_nobody(divided: Callable[..., Path]):
    """It is made anew; a store is not refused because of it. The lengths are those that no division gives."""
    root = divided(32, 128)
    (path,) = index_files(str(root))
    data = Path(path.path).read_bytes()
    for size in [*range(1, 40), 41, 200, 500, 700, 779, 801, 1501, 2708, 2727]:  # item 31 ends at 808
        Path(path.path).write_bytes(data[:size])
        assert not refused(root, maxHashSlotNum=32, maxIndexNum=128), size


def test_an_index_file_that_rocketmq_lengthened(divided: Callable[..., Path]):
    """With larger keys it maps, and lengthens, the files that are there; their items stay where they are."""
    root = divided(32, 128)
    (path,) = index_files(str(root))
    with open(path.path, "r+b") as file:
        file.truncate(index.file_size(500, 2000))
    assert not refused(root, maxHashSlotNum=32, maxIndexNum=128)
    assert not refused(root, maxHashSlotNum=500, maxIndexNum=2000), "as RocketMQ, which reads it wrongly"
    assert refused(root, maxHashSlotNum=33, maxIndexNum=128) and refused(root, maxHashSlotNum=50, maxIndexNum=200)
