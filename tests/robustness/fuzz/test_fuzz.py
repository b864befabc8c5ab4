"""A short fuzzing run of every parser: the corpus, then a few hundred mutations of it, the same ones each time."""

import random

import pytest

from labs.fuzz import run
from labs.fuzz.corpus import FOLDER, MOST_BYTES, load
from labs.fuzz.more_targets import TARGETS
from labs.fuzz.mutate import mutate

ROUNDS = {"log": 40, "resync": 60, "broker_conf": 100, "json_config": 250, "setting": 200,
          "filters": 60, "config_tables": 100, "queue_ends": 150}  # fmt: skip


@pytest.mark.parametrize("name", TARGETS)
def test_target(name: str) -> None:
    done = run.fuzz(name, load(name), 1, rounds=len(load(name)) + ROUNDS.get(name, 500))
    assert done.found is None, f"{done.found!r} of {done.input!r}"


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_small_and_good(name: str) -> None:
    """A parser takes most of its seeds: they are what Java wrote, not refusals."""
    seeds = load(name)
    assert all(0 < len(seed) <= MOST_BYTES for seed in seeds)
    refused = [run.attempt(name, seed)[0] for seed in seeds]
    assert refused.count(False) * 2 >= len(seeds), refused


def test_no_corpus_without_a_target() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(TARGETS)


def test_the_same_seed_gives_the_same_inputs() -> None:
    one, two = ([mutate(load("record_"), random.Random(7)) for _ in range(3)] for _ in range(2))
    assert one == two


def test_a_find_is_told_and_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that dies of one byte: the run stops there, and the input is that byte."""

    def brittle(data: bytes) -> None:
        if b"\xee" in data:
            raise IndexError("of no use to anybody")

    monkeypatch.setitem(TARGETS, "brittle", brittle)
    done = run.fuzz("brittle", [b"abcdef" * 20, b"x" * 50 + b"\xee" + b"y" * 50], 1, rounds=10)
    assert isinstance(done.found, IndexError) and done.input == b"\xee" and done.rounds == 2
