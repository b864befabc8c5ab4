"""Stores as RocketMQ leaves them when its clock was set back: every door gives what RocketMQ keeps.

The long form asks beside and after real brokers: `python -m labs.clocks`. Here the stores are made byte by
byte, and what RocketMQ keeps of each is recorded (`recorded.json`, written by `--record`).
"""

import hashlib
import json
from pathlib import Path

import pytest

from labs.clocks.__main__ import RECORDED, made_stores, names_of
from labs.clocks.doors import ask_all, java_rows, subject_of
from labs.clocks.lives import lives, make
from tests.harness import turns
from tests.interop.java import VERSIONS
from tests.interop.running_broker import java_of
from tests.robustness.matrix import truth

for package in ("pyarrow", "duckdb", "polars", "pandas", "deltalake", "pyiceberg"):
    pytest.importorskip(package, reason=f"{package} is not installed")

MADE = made_stores()
PARTS = 5
TURN = turns.day()


@pytest.mark.parametrize("number", range(len(MADE)), ids=[" ".join(map(str, one)) for one in MADE])
def test_every_door_gives_what_rocketmq_keeps(tmp_path: Path, number: int) -> None:
    """A fifth of the doors each; neighbours ask others, and another day asks others."""
    store = tmp_path / "store"
    make(store, *MADE[number])
    known = json.loads(RECORDED.read_text())[" ".join(map(str, MADE[number]))]
    kept = names_of(truth.rows(store))
    assert known == dict.fromkeys(VERSIONS, kept), "the measure of the doors is what each version keeps"
    asked, wrong = ask_all(
        subject_of(store, tmp_path / "work", "made"), part=(number + (TURN or 0)) % PARTS, parts=PARTS
    )
    assert asked > 4
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_recorded_is_what_rocketmq_keeps(tmp_path: Path, version: str) -> None:
    java = java_of(version)
    number = ((TURN or 0) * 7 + VERSIONS.index(version)) % len(MADE)
    make(tmp_path / "store", *MADE[number])
    known = json.loads(RECORDED.read_text())[" ".join(map(str, MADE[number]))][version]
    assert names_of(java_rows(java, tmp_path / "store")) == known


def test_the_long_form_tries_every_combination() -> None:
    assert len(set(lives())) == len(lives()) == 3 * 2 * 5 * 3


def test_a_recorded_name_is_of_the_rows() -> None:
    assert names_of([]) == [0, hashlib.sha256(b"[]").hexdigest()[:16]]
