"""The rules of docs/internals/hostile-input.md: each names its tests, and some that no other place tries are tried
here."""

import re
import tomllib
from pathlib import Path

from flintmq.store.message_store import MessageStore
from tests.support.crashed import Clock
from tests.support.engine import KEYS, open_small, put_all, stored

ROOT = Path(__file__).resolve().parents[3]


def test_each_rule_has_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "internals" / "hostile-input.md").read_text(encoding="utf-8")
    rows = page.partition("| rule | tests |")[2].partition("\n\n")[0].splitlines()[2:]
    there = {
        name for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }  # fmt: skip
    named = [re.findall(r"`(test_\w+)`", row.split("|")[2]) for row in rows]
    assert len(rows) >= 14 and all(named), "a rule without a test"
    assert [name for names in named for name in names if name not in there] == []


class Aging(Clock):
    """All files are old."""

    def modified_ms(self, path: str) -> int | None:
        return 0


def test_strangers_stay(tmp_path: Path) -> None:
    """Opening, roll-over, cleaning, recovery of a cut log, a clean stop: none of them takes what is not the store's."""
    stored(tmp_path, 40, size=300)
    places = [tmp_path, *(p for p in tmp_path.rglob("*") if p.is_dir())]
    strangers = [
        place / name for place in places for name in ("stranger", "0000", "1.flintmq-new", "00000000000000000000x")
    ]
    for stranger in strangers:
        stranger.write_bytes(b"mine")
    hours = ";".join(map(str, range(24)))
    with MessageStore(tmp_path, config=KEYS | {"deleteWhen": hours}, effects=Aging(), unique_keys=False) as store:
        put_all(store, 40, first=40, size=300)
        store.flush()
        store.wait_dispatched(60)
        store._parts.housekeeping.retention.clean_once()
        assert store._parts.files.min_offset > 0
    last = max(p for p in (tmp_path / "commitlog").iterdir() if len(p.name) == 20)
    last.write_bytes(bytes(last.stat().st_size))
    for name in ("flintmq.mark", "checkpoint"):
        (tmp_path / name).unlink()
    (tmp_path / "abort").touch()
    open_small(tmp_path).close()
    gone = [path for path in strangers if path.parent.is_dir() and not path.exists()]
    assert gone == [] and all(path.read_bytes() == b"mine" for path in strangers if path.exists())
    assert sum(path.exists() for path in strangers) > len(strangers) // 2


def test_a_broken_table_leaves_the_good_copy(tmp_path: Path) -> None:
    """Whatever stands in topics.json, what its copy knows is known after a start, and after the next save."""
    with open_small(tmp_path) as store:
        store.create_topic("first", 3)
        store.create_topic("second", 5)
        store.create_topic("third", 7)
    table, copy = tmp_path / "config" / "topics.json", tmp_path / "config" / "topics.json.bak"
    assert b'"second"' in copy.read_bytes()
    for broken in (b"", b"{", b"[]", b"\x00" * 300, b'{"topicConfigTable": 7', b"\xff\xfe"):
        table.write_bytes(broken)
        with open_small(tmp_path) as store:
            assert b'"second"' in copy.read_bytes()
            store.create_topic("more", 2)
            both = table.read_bytes() + copy.read_bytes()
            assert b'"second"' in both and b'"more"' in both, broken


def test_the_linter_forbids_what_runs_data() -> None:
    """exec, pickle, eval, yaml.load, shells: everywhere below src."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert {"S102", "S301", "S307", "S506", "S602", "S604", "S605"} <= set(rules["select"])
    ignored = [
        *rules["ignore"],
        *(rule for place, some in rules["per-file-ignores"].items() if "src" in place for rule in some),
    ]
    assert not [rule for rule in ignored if rule.startswith("S") and not rule.startswith("SIM")]
