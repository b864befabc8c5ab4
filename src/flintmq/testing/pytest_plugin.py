"""A plugin for pytest: stores for tests of programs that use FlintMQ.

    def test_orders(flintmq_store):
        flintmq_store.put(Message("orders", b"hello"))
        assert flintmq_store.consumer("billing", "orders").poll(wait_ms=1000)[0].body == b"hello"

It is installed with the package, and needs no import. Fixtures: `flintmq_store`, `flintmq_open`, `flintmq_path`,
`flintmq_reader`, `flintmq_keys`. Configuration, later ones win: small files, the ini option `flintmq_config` (a
KEY=VALUE a line), the marker `@pytest.mark.flintmq(flushDiskType="SYNC_FLUSH")` of module, class and test, arguments of
`flintmq_open`. `pytest -p no:flintmq` disables the plugin.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flintmq.config.text import split_setting
from flintmq.errors import StoreError, UsageError

if TYPE_CHECKING:
    from flintmq.message import StoredMessage
    from flintmq.store.message_store import MessageStore

INI = "flintmq_config"
MARKER = "flintmq(KEY=VALUE, ...): RocketMQ's configuration keys, in either spelling, for the stores of a test"
PATIENCE_S = 1.0  # how long threads, files and maps of a closed store may take to go


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option."""
    parser.addini(INI, "RocketMQ's keys for the stores of tests, KEY=VALUE, one a line", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def flintmq_path(tmp_path: Path) -> Path:
    """Return the directory of this test's store; it is created when a store is opened."""
    return tmp_path / "flintmq"


@pytest.fixture
def flintmq_keys(request: pytest.FixtureRequest) -> dict[str, object]:
    """Return the configuration of this test's stores: ini option, then markers.

    Keys have RocketMQ's names.
    """
    return configuration(request)


@pytest.fixture(scope="session")
def flintmq_session_keys(request: pytest.FixtureRequest) -> dict[str, object]:
    """Return the configuration that holds for all tests: that of the ini option."""
    return configuration(request)


@pytest.fixture
def flintmq_open(request: pytest.FixtureRequest, flintmq_path: Path) -> Iterator[Callable[..., MessageStore]]:
    """Return a function that opens a store, again or another; all are closed after the test.

    Its signature is `flintmq_open(path=flintmq_path, unique_keys=True, **keys)`. The test fails in its teardown if a
    store could not be stopped cleanly, or leaked threads, files or maps.
    """
    from flintmq.config.keys import key_name
    from flintmq.store.message_store import MessageStore

    keys = configuration(request)
    before = set(threading.enumerate())
    stores: list[MessageStore] = []

    def opened(path: str | os.PathLike[str] = flintmq_path, unique_keys: bool = True, **more: object) -> MessageStore:
        given = keys | {key_name(key): value for key, value in more.items()}
        store = MessageStore(path, given, dev=True, unique_keys=unique_keys)
        stores.append(store)
        return store

    yield opened
    complaints = []
    for store in reversed(stores):
        with suppress(StoreError):  # its `abort` stays, which is a complaint below
            store.close()
    for root in dict.fromkeys(store.root for store in stores):
        if os.path.exists(os.path.join(root, "abort")):
            complaints.append(f"{root} was not stopped cleanly; the log of flintmq.store says why")
    complaints += leaks([store.root for store in stores], before)
    if complaints:
        pytest.fail("flintmq: " + "; ".join(complaints), pytrace=False)


@pytest.fixture
def flintmq_store(flintmq_open: Callable[..., MessageStore]) -> MessageStore:
    """Return an empty `flintmq.MessageStore` of small files, closed after the test."""
    return flintmq_open()


@pytest.fixture
def flintmq_reader(flintmq_path: Path) -> Callable[..., list[StoredMessage]]:
    """Return a function that reads all messages of this test's store from its log.

    `flintmq_reader(topic=None)` needs no open store, so it also sees messages that a program under test puts after
    opening `flintmq_path` by itself.
    """
    from flintmq.store.view import open_store

    def read(topic: str | None = None) -> list[StoredMessage]:
        with open_store(flintmq_path) as view:
            return [message for message in view.messages() if topic in (None, message.topic)]

    return read


def configuration(request: pytest.FixtureRequest) -> dict[str, object]:
    """Return the keys of ini option and markers, under RocketMQ's names.

    Raises:
        UsageError: a line that is no KEY=VALUE, or a marker with positional arguments.
    """
    from flintmq.config.keys import key_name

    pairs: list[tuple[str, object]] = [split_setting(line) for line in request.config.getini(INI)]
    for marker in reversed(list(request.node.iter_markers("flintmq"))):
        if marker.args:
            raise UsageError(f"pytest.mark.flintmq{marker.args}: give keys, such as flushDiskType='SYNC_FLUSH'")
        pairs += marker.kwargs.items()
    return {key_name(key): value for key, value in pairs}


def leaks(roots: list[str], before: set[threading.Thread]) -> list[str]:
    """List the leaks of closed stores: new threads, and, on Linux, open files and maps."""
    limit = time.monotonic() + PATIENCE_S
    while found := _leaks(roots, before):
        if time.monotonic() > limit:
            break
        gc.collect()
        time.sleep(0.05)
    return found


def _leaks(roots: list[str], before: set[threading.Thread]) -> list[str]:
    threads = [t.name for t in threading.enumerate() if t not in before and t.name.startswith("flintmq-")]
    found = [f"thread {name} goes on" for name in threads]
    inside = tuple(os.path.join(root, "") for root in roots)
    if not inside or not os.path.isdir("/proc/self/fd"):
        return found
    for fd in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:  # the descriptor that lists the directory
            continue
        if path.startswith(inside):
            found.append(f"{path} is open")
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
        paths = {line.split(maxsplit=5)[5].strip() for line in lines if line.count("/") > 1}
    return found + [f"{path} is mapped" for path in sorted(paths) if path.startswith(inside)]
