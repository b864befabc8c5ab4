"""Who has put what, and the way out of a stuck batch."""

from pathlib import Path

import pytest

from flintmq.errors import NotAStoreError, StoreLockedError, UsageError
from flintmq.message import Message
from flintmq.spark.jobs.replay.exactly_once import WriterIds
from flintmq.spark.sink.commit import STAGED, commit
from flintmq.spark.sink.listing import forget, read_puts
from flintmq.store.message_store import MessageStore
from tests.spark.sink.test_commit import CONFIG, begun_by_01, bodies, of, small, unlooked


def test_the_way_out_of_a_stuck_batch(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As a user goes it: the query fails, the listing says why, --forget lets it begin the batch anew."""
    root = small(tmp_path / "s")
    begun_by_01(root, "q", [b"a"], "gone.arrow")
    commit(of(root, "other"), 7, unlooked(root, [b"theirs"]))
    (root / STAGED / "left.arrow").write_bytes(bytes(10))
    found = read_puts(str(root))
    told = {giver.query: (giver.kind, giver.state, giver.batch, giver.staged_files) for giver in found.givers}
    assert told == {"q": ("sink", "stuck", 0, 1), "other": ("sink", "done", 7, 0)}
    assert (found.unowned_files, found.unowned_bytes) == (1, 10)
    assert "gone.arrow is missing" in next(giver.why for giver in found.givers if giver.query == "q")
    assert forget(str(root), "q").state == "stuck"
    commit(of(root), 0, unlooked(root, [b"a", b"b"]))
    assert bodies(root)[1:] == [b"a", b"theirs", b"a", b"b"]  # what the warning says


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="no store"):
        read_puts(str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()
    with MessageStore(tmp_path / "s", CONFIG) as store:
        store.put(Message("T", b"x"))
        assert read_puts(str(tmp_path / "s")).givers == []
        with pytest.raises(StoreLockedError):
            forget(str(tmp_path / "s"), "q")
    WriterIds(str(tmp_path / "s")).set("replay of /a", {"after": None, "log_end": 3, "rows": 5, "running": False})
    with pytest.raises(UsageError, match="no record of query 'q'; there are records of: replay of /a"):
        forget(str(tmp_path / "s"), "q")
    assert forget(str(tmp_path / "s"), "replay of /a").rows == 5 and WriterIds(str(tmp_path / "s")).of("") == {}
