"""An SQL92 expression given for tags: told once by every door that takes tags, and still the name of a tag."""

import logging
from pathlib import Path

import pytest

from flintmq.cli import app
from flintmq.config.text import tag_names
from flintmq.lake.read.options import _tags
from flintmq.message import GetMessageStatus, Message
from tests.support.engine import open_small

SQL = "a > 5"
TOLD = "tags='a > 5' looks like an SQL92 expression, and is read as the name of a tag; tags are A || B, and conditions "


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    tag_names.cache_clear()
    caplog.set_level(logging.WARNING, "flintmq")
    return caplog


def only_told(told: pytest.LogCaptureFixture) -> None:
    (text,) = told.messages
    assert text.startswith(TOLD)
    told.clear()
    tag_names.cache_clear()


def test_every_door_tells_and_finds_the_tag(
    tmp_path: Path, told: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
):
    with open_small(tmp_path) as store:
        for tags in ("b", SQL):  # RocketMQ stores such a tag, and its consumers find it
            store.put(Message("T", b"x", tags=tags))
        assert store.wait_dispatched(60)
        for _ in range(3):
            assert [m.tags for m in store.get("T", 0, 0, tags=SQL).messages] == [SQL]
        assert store.get("T", 0, 0, 1, tags=SQL).status is GetMessageStatus.FOUND
        only_told(told)
        with store.consumer("G", "T", tags=SQL) as consumer:
            assert [m.tags for m in consumer.poll()] == [SQL]
        only_told(told)
    assert _tags({"tags": SQL}) == {SQL}
    only_told(told)
    for words in (["tail", str(tmp_path), "T"], ["scan", str(tmp_path)]):
        code = app.run([*words, "--tag", SQL])
        shown = capsys.readouterr()
        assert (code, shown.err.count(TOLD), len(shown.out.splitlines())) == (0, 1, 1), shown
        told.clear()
        tag_names.cache_clear()


@pytest.mark.parametrize(
    ("text", "sql"),
    [("a > 5", True), ("a = 'x'", True), ("b in ('x')", True), ("a IS NOT NULL", True), ("a BETWEEN 1 AND 2", True),
     ("A", False), ("A || B", False), ("*", False), ("", False), ("paid in full", False), ("库存 (1)", False),
     ("is nothing", False), ("a-b.c:d/e", False)],
)  # fmt: skip
def test_what_looks_like_sql(text: str, sql: bool, told: pytest.LogCaptureFixture):
    tag_names(text)
    assert bool(told.messages) == sql
