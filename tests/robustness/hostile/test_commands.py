"""Every command on damaged stores: an exit code of the table, one clear line, no traceback, no hang, nothing written.

A short run takes a quarter of the damages for each kind of file and two commands for each, in turns: every damage, kind
and command is met often. With FLINTMQ_HOSTILE=all everything meets everything (minutes), as in `make fuzz`.
"""

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import flintmq
from flintmq.errors import FlintError
from tests.compat.stores import Golden
from tests.robustness.hostile.cases import COMMANDS, DAMAGES, VICTIMS
from tests.robustness.hostile.commands import Outcome, complaints, exit_codes, run, stamps, time_limit

EVERYTHING = os.environ.get("FLINTMQ_HOSTILE") == "all"
ALLOWED = exit_codes()
_turns = count(int(os.environ.get("FLINTMQ_HOSTILE_TURN", "0")))


def linked(source: str, to: str) -> None:
    """Give a file another name; copy it where that is on another file system (tests/harness/in_memory.py)."""
    try:
        os.link(source, to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copy2(source, to)


def linked_copy(source: Path, to: Path) -> Path:
    """A copy of a store in which every file is the original, until it is replaced."""
    return Path(shutil.copytree(source, to, copy_function=linked))


def fill_in(words: tuple[str, ...], golden: Golden, store: Path, file: Path, into: Path) -> list[str]:
    row = golden.live[len(golden.live) // 2]
    key = (row["keys"] or row["msg_id"] or "k").split(" ")[0]
    places = {"STORE": str(store), "FILE": str(file), "INTO": str(into), "TOPIC": row["topic"], "KEY": key}
    return [*(places.get(word, word) for word in words), *golden.sets]


def judge(done: Outcome, store: Path, before: dict[str, tuple[int, ...]]) -> list[str]:
    wrong = complaints(done, ALLOWED)
    if stamps(store) != before:
        wrong.append(f"{done.words[0]} changed the store")
    return wrong


def one_turn() -> Iterator[str]:
    """Names of the commands that run now: all, or the next two."""
    names = list(COMMANDS)
    if EVERYTHING:
        yield from names
        return
    turn = next(_turns)
    yield names[turn % len(names)]
    yield names[(turn * 5 + turn // len(names) + 3) % len(names)]


@pytest.mark.turn(3, of=["src/flintmq/format/", "src/flintmq/kernels/"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_damaged_files(victim: str, golden: Callable[[str], Golden], tmp_path: Path) -> None:
    kind = VICTIMS[victim]
    source = golden(kind.store)
    wrong: list[str] = []
    for number, (name, act) in enumerate(DAMAGES.items()):
        if not EVERYTHING and (number + list(VICTIMS).index(victim)) % 4:
            continue
        store = linked_copy(source.path, tmp_path / f"{number}" / "store")
        files = sorted(store.glob(kind.pattern))
        target = files[kind.which]
        try:
            act(target, random.Random(number))
        except (IsADirectoryError, FileNotFoundError) as error:
            pytest.fail(f"{victim}: {name} could not be done: {error}")
        before = stamps(store)
        for command in one_turn():
            into = tmp_path / f"{number}" / "into"
            done = run(*fill_in(COMMANDS[command], source, store, target, into))
            wrong += [f"{victim}, {name}: {what}" for what in judge(done, store, before)]
            shutil.rmtree(into, ignore_errors=True)
        shutil.rmtree(tmp_path / f"{number}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("victim", [name for name in VICTIMS if "log" in name and "timer" not in name])
def test_all_readers_see_the_same_records(victim: str, golden: Callable[[str], Golden], tmp_path: Path) -> None:
    """What scan, verify, Arrow and the view call a record of a damaged log is the same."""
    kind = VICTIMS[victim]
    source = golden(kind.store)
    names = list(DAMAGES) if EVERYTHING else random.Random(victim).sample(list(DAMAGES), 5)
    for name in names:
        store = linked_copy(source.path, tmp_path / name / "store")
        DAMAGES[name](sorted(store.glob(kind.pattern))[kind.which], random.Random(name))
        done = run("scan", store, "--skip-damage", "--json", *source.sets)
        if done.status not in (0, 1):
            continue
        offsets = [int(line.split(b'"physical_offset":')[1].split(b",")[0]) for line in done.out.splitlines()]
        table = flintmq.scan_arrow(store, ["physical_offset"], strict=False, set=source.config).read_all()
        assert table.column(0).to_pylist() == offsets, name
        with flintmq.open_store(store, set=source.config) as view:
            assert [message.physical_offset for message in view.messages(strict=False)] == offsets, name
        verified = run("verify", store, "--json", *source.sets)
        assert f'"records":{len(offsets)},' in verified.out.decode(), name


@pytest.mark.parametrize("columns", [None, ["topic", "tags", "properties", "born_timestamp"]])
def test_arrow_on_damaged_logs(columns: list[str] | None, golden: Callable[[str], Golden], tmp_path: Path) -> None:
    """scan_arrow raises one of flintmq's errors or gives batches that are valid in themselves."""
    source = golden("flags")
    for number, (name, act) in enumerate(DAMAGES.items()):
        store = linked_copy(source.path, tmp_path / f"{number}")
        act(sorted((store / "commitlog").iterdir())[number % 2], random.Random(number))
        with time_limit(60):
            for strict in (True, False):
                try:
                    reader = flintmq.scan_arrow(store, columns, strict=strict, decompress=True, tags=None)
                    for batch in reader:
                        batch.validate(full=True)
                except FlintError as error:
                    assert len(str(error)) < 2000, name
        shutil.rmtree(store)
