"""A store and a broker that serves it, for the tests of its rooms."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from tests.broker.guarding import Connected, Guarded, SignedLine, users
from tests.broker.talk import KEYS, Line
from tests.harness.in_memory import tmp_path_factory as tmp_path_factory
from tests.support.engine import open_small, put_all

SMALL = {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 100, "maxIndexNum": 400, **KEYS}
LOOK_S = 0.02  # between two looks at the store: a test does not wait for a second


def everything(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a store with its bytes and its time."""
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def resting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store that nobody writes: 30 messages in queue 0 of T, tags t0, t1, t2 in turn, and nothing in queue 1.

    No broker of these tests may have changed it.
    """
    path = tmp_path_factory.mktemp("broker") / "store"
    with open_small(path, **KEYS) as made:
        made.create_topic("T", queues=2)
        put_all(made, 30)
    before = everything(path)
    yield path
    assert everything(path) == before, "a broker wrote into a store that it serves read-only"


@pytest.fixture
def store(resting: Path, tmp_path: Path) -> Path:
    """The same store, to be written."""
    return Path(shutil.copytree(resting, tmp_path / "store"))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Broker]]:
    """served(root, ...) -> a broker that looks at its store often; it is stopped after the test."""
    monkeypatch.setattr("flintmq.broker.served_view.LOOK_S", LOOK_S)
    monkeypatch.setattr("flintmq.broker.served_view.LOOK_SHARE", 0)
    with ExitStack() as stack:

        def serve(root: Path | str, **given: Any) -> Broker:
            return stack.enter_context(Broker(root, read_only=True, **given))

        yield serve


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """writing(root, ...) -> a broker that writes its store (tmp_path/"store"), stopped after the test."""
    with ExitStack() as stack:

        def write(root: Path | None = None, **given: Any) -> Broker:
            keys = {**SMALL, **given.pop("config", {})}
            return stack.enter_context(Broker(root or tmp_path / "store", config=keys, **given))

        yield write


@pytest.fixture
def line() -> Iterator[Callable[[Broker], Line]]:
    """line(broker) -> a connection of its own, closed after the test."""
    with ExitStack() as stack:
        yield lambda broker: stack.enter_context(Line(broker.address))


@pytest.fixture
def guarded(writing: Callable[..., Broker], tmp_path: Path) -> Guarded:
    """guarded(rule, ...) -> a broker with an ACL, tmp_path/acl.json: alice may do anything, bob what the rules say."""

    def guard(*rules: dict[str, Any], **given: Any) -> Broker:
        path = tmp_path / "acl.json"
        path.write_text(users(*rules), encoding="utf-8")
        return writing(acl=path, **given)

    return guard


@pytest.fixture
def by() -> Iterator[Connected]:
    """by(broker, user, password) -> a connection with signed requests, by itself alice's; closed after the test."""
    with ExitStack() as stack:
        yield lambda broker, *who: stack.enter_context(SignedLine(broker.address, *who))
