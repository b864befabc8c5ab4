"""Fixtures for all tests: the golden stores, and a word about which kernels run."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from flintmq.kernels import _select
from tests.compat.stores import GOLDEN_NAMES, Golden
from tests.harness import class_archive, needs, order, quarters, turns
from tests.harness.one_java import OneJava
from tests.harness.pages import ENVIRONMENT
from tests.harness.skips import register
from tests.support.object_server import Server, running
from tests.support.object_servers import RealServer, serving

# Spark's Java machines live for seconds here: compiling what is hot a second time, and better, costs each of them half
# of its processor time, and loading classes half of the rest. In the environment, so that it holds for processes that
# tests start too.
os.environ.setdefault("SPARK_SUBMIT_OPTS", class_archive.options())
os.environ.setdefault("SPARK_LAUNCHER_OPTS", class_archive.QUICK)
# What a test reads shall not depend on the tests before it, and the user's cache is not theirs. Tests of zone maps have
# a cache of their own.
os.environ["FLINTMQ_ZONE_MAPS"] = "off"


def pytest_addoption(parser: pytest.Parser) -> None:
    quarters.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """A skip that nobody allowed is a failure; several workers get the longest files first."""
    register(config)
    turns.agree()
    order.with_several_workers(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those of a quarter; with several workers, of families of alike tests those of today, the longest files first."""
    quarters.take(config, items)
    turns.take(config, items)
    order.sort(config, items)


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector: pytest.Collector) -> pytest.CollectReport | None:
    return needs.report(collector)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say which kernels the tests run on, complain about compiled ones older than their sources, and tell the turn."""
    stale = ", ".join(_select.stale())
    text = f"flintmq kernels: {'compiled' if _select.compiled() else 'uncompiled'}"
    text += f"; STALE: {stale} (run: make compile)" if stale else ""
    return [text, *filter(None, [turns.told(config)])]


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Golden]]:
    """golden(name) -> Golden, unpacked once a session. At the end of the session none of them may have changed."""
    folder = tmp_path_factory.mktemp("golden")
    stores: dict[str, Golden] = {}
    before: dict[str, dict[str, tuple[int, int]]] = {}

    def unpack(name: str) -> Golden:
        if name not in stores:
            stores[name] = Golden(name, folder)
            before[name] = stores[name].stamps()
        return stores[name]

    yield unpack
    changed = [name for name, store in stores.items() if store.stamps() != before[name]]
    assert not changed, f"a test wrote to shared golden stores: {changed}"


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream does not wait five seconds for queues that are gone: nobody is about to write the store of this test."""
    monkeypatch.setattr("flintmq.lake.stream.reader.GRACE_SECONDS", 0.0)


@pytest.fixture(params=GOLDEN_NAMES)
def golden_store(request: pytest.FixtureRequest, golden: Callable[[str], Golden]) -> Golden:
    """Every golden store in turn."""
    return golden(request.param)


@pytest.fixture(scope="session")
def one_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneJava]:
    """Runs Spark examples of pages in one process, which starts with the first."""
    java = OneJava(tmp_path_factory.mktemp("java"), ENVIRONMENT)
    yield java
    java.close()


@pytest.fixture(scope="session")
def objects() -> Iterator[Server]:
    """An S3-compatible server on loopback with one bucket, which asks for no keys."""
    for package in ("pyarrow", "moto", "flask"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def real_server() -> Iterator[Callable[[str], RealServer]]:
    """real_server(name): that of tests/support/object_servers.py; the first who asks starts it, and it stays."""
    with ExitStack() as stack:
        yield cache(lambda name: stack.enter_context(serving(name)))
