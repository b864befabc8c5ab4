"""The journal: every kind of change, forward and back, once and twice."""

from pathlib import Path

import pytest

from flintmq.errors import UsageError
from flintmq.forensics.salvage import journal as journals
from flintmq.forensics.salvage.journal import SalvageJournal
from flintmq.storage.files.filesystem import REAL
from tests.support.faults import Faulty


class Killed(BaseException):
    """The process ends here."""


def tree(root: Path) -> dict[str, bytes]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    found = {str(path.relative_to(root)): path.read_bytes() for path in files}
    return {name: data for name, data in found.items() if not name.startswith("quarantine")}


def store(root: Path) -> Path:
    for name, text in (("log/0", "0123456789"), ("log/1", "abcdefghij"), ("queue/T/0/x", "old"), ("mark", "m"),
                       ("short", "12"), ("checkpoint", "c")):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def planned(root: Path, effects: Faulty) -> SalvageJournal:
    """One change of each kind."""
    journal = journals.begin(str(root), effects)
    journal.keep("before/w", b"345")
    journal.keep("after/w", b"XYZ")
    journal.keep("before/none", b"")
    journal.keep("before/cut", b"hij")
    journal.keep("new/queue/T/0/y", b"new")
    journal.keep("new/made", b"made")
    journal.changes = [
        {"op": "create", "file": "log/2", "size": 5},
        {"op": "write", "file": "log/2", "position": 1, "length": 3, "before": "before/none", "after": "after/w"},
        {"op": "resize", "file": "log/1", "old": 10, "new": 7, "before": "before/cut"},
        {"op": "resize", "file": "short", "old": 2, "new": 4, "before": "before/none"},
        {"op": "write", "file": "log/0", "position": 3, "length": 3, "before": "before/w", "after": "after/w"},
        {"op": "swap", "file": "queue/T/0", "old": True, "new": True},
        {"op": "swap", "file": "mark", "old": True, "new": False},
        {"op": "swap", "file": "made", "old": False, "new": True},
    ]
    return journal


AFTER = {"log/0": b"012XYZ6789", "log/1": b"abcdefg", "log/2": b"\0XYZ\0", "queue/T/0/y": b"new", "made": b"made",
         "short": b"12\0\0", "checkpoint": b"c"}  # fmt: skip


def test_forward_and_back(tmp_path: Path) -> None:
    root, effects = store(tmp_path), Faulty()
    before, journal = tree(root), planned(tmp_path, effects)
    journal.commit()
    for _ in range(2):
        journal.apply()
        assert tree(root) == AFTER
    [found] = SalvageJournal.all(str(root), REAL)
    assert (found.state, found.changes) == (journals.DONE, journal.changes)
    for _ in range(2):
        found.undo()
        assert tree(root) == before
    assert SalvageJournal.all(str(root), REAL)[0].state == journals.UNDONE


def test_a_kill_at_every_call(tmp_path: Path) -> None:
    """Whatever was done: it goes on to the end, or back to the beginning."""
    count = _killed(tmp_path / "count", 1 << 30)
    assert count > 40
    for number in range(count):
        _killed(tmp_path / str(number), number)


def _killed(folder: Path, at: int) -> int:
    """Commit, apply and undo with a kill before call number `at`; gives the number of calls."""
    root, effects, before = store(folder), Faulty(), tree(store(folder))
    journal = planned(root, effects)
    begun = len(effects.calls)

    def kill(name: str, path: str) -> None:
        if len(effects.calls) - begun == at:
            effects.before = None
            raise Killed

    effects.before = kill
    undoing = False
    try:
        journal.commit()
        journal.apply()
        undoing = True
        journal.undo()
    except Killed:
        found = SalvageJournal.all(str(root), REAL)
        if not found:
            assert tree(root) == before
        elif at % 2 and not undoing:
            found[0].apply()
            assert tree(root) == AFTER
            found[0].undo()
        else:
            found[0].undo()
    assert tree(root) == before
    return len(effects.calls) - begun


def test_undoing_takes_no_messages_back(tmp_path: Path) -> None:
    root = store(tmp_path)
    journal = planned(root, Faulty())
    journal.commit()
    journal.apply()
    (root / "checkpoint").write_text("newer")
    with pytest.raises(UsageError, match="has written it since"):
        journal.undo()
    assert tree(root) == AFTER | {"checkpoint": b"newer"}


def test_names_and_leftovers(tmp_path: Path) -> None:
    root = store(tmp_path)
    (root / "quarantine" / "salvage-0001.new" / "x").mkdir(parents=True)
    journal = planned(root, Faulty())
    assert not (root / "quarantine" / "salvage-0001.new" / "x").exists()
    journal.commit()
    assert journals.begin(str(root), REAL).folder.endswith("salvage-0002.new")
    (root / "quarantine" / "salvage-0001" / "journal.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        SalvageJournal.all(str(root), REAL)
    journals.drop(journals.begin(str(tmp_path / "other"), REAL))
    assert list((tmp_path / "other").iterdir()) == []
