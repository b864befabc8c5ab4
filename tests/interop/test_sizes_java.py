"""What real RocketMQ does with sizes that its files contradict, and with files that are none of its own."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq import ConfigError, Message, MessageStore
from flintmq.forensics.verify.run import verify
from tests.interop.java import VERSIONS, Java
from tests.interop.running_broker import java_of

pytestmark = pytest.mark.slow

KEYS = {"mappedFileSizeCommitLog": 8192, "mappedFileSizeConsumeQueue": 400, "maxHashSlotNum": 50, "maxIndexNum": 200}


@pytest.fixture(scope="module", params=VERSIONS)
def java(request: pytest.FixtureRequest) -> Java:
    return java_of(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with MessageStore(tmp_path / "s", KEYS) as store:
        for number in range(60):
            store.put(Message("T", b"x%d" % number, keys=f"k{number}")).raise_for_status()
    return tmp_path / "s"


def starts(java: Java, root: Path, **keys: int) -> bool:
    """Whether it loads a copy of the store."""
    copy = root.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root, copy)
    try:
        java("run", copy, KEYS | keys)
    except AssertionError as error:
        assert "the peer refused to load" in str(error)
        return False
    return True


def accepts(root: Path, **keys: int) -> bool:
    try:
        MessageStore(root, KEYS | keys).close()
    except ConfigError:
        return False
    return True


def test_it_refuses_the_sizes_that_we_refuse_but_for_the_index(java: Java, root: Path):
    cases: list[tuple[dict[str, int], bool, bool]] = [  # keys, Java starts, FlintMQ opens
        ({}, True, True),
        ({"mappedFileSizeCommitLog": 16384}, False, False),
        ({"mappedFileSizeConsumeQueue": 6000}, False, False),
        ({"mappedFileSizeConsumeQueue": 391}, True, True),
        ({"maxHashSlotNum": 7, "maxIndexNum": 50}, True, False),
        ({"maxMessageSize": 10}, True, True),
    ]
    assert [(keys, starts(java, root, **keys), accepts(root, **keys)) for keys, *_ in cases] == cases


STRAYS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda folder: None,
    "a file": lambda folder: (folder / "x.bak").write_bytes(b"0123456789"),
    "of a log file's length": lambda folder: (folder / "x.bak").write_bytes(bytes(8192)),
    "of a queue file's length": lambda folder: (folder / "x.bak").write_bytes(bytes(400)),
    "empty, the last by name": lambda folder: (folder / "x.bak").touch(),
    "empty, the first by name": lambda folder: (folder / ".x").touch(),
    "a directory": lambda folder: (folder / "x.bak").mkdir(),
}


@pytest.mark.turn(6)
@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/T/0"])
def test_a_stray_file_is_a_defect_where_it_does_not_start(java: Java, root: Path, tmp_path: Path, folder: str):
    found = {}
    for name, make in STRAYS.items():
        store = tmp_path / name
        shutil.copytree(root, store)
        make(store / folder)
        found[name] = starts(java, store), verify(str(store)).defect_counts.get("stray-file", 0)
    assert found == {name: (name in ("nothing", "empty, the last by name", "a directory"), stray) for name, stray in (
        ("nothing", 0), ("a file", 1), ("of a log file's length", 1), ("of a queue file's length", 1),
        ("empty, the last by name", 0), ("empty, the first by name", 1), ("a directory", 0),
    )}  # fmt: skip
