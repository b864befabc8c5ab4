"""Damage does what it says, and to nothing else."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from flintmq.errors import UsageError
from flintmq.testing import write_store
from flintmq.testing.damage import KINDS, cut, flip, random_damage, rubbish, stale, swap, zero
from flintmq.testing.strategies import damages

DATA = bytes(range(1, 101))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    return path


def test_flip(file: Path) -> None:
    done = flip(file, 10, 0x81)
    assert file.read_bytes() == DATA[:10] + bytes([DATA[10] ^ 0x81]) + DATA[11:]
    assert (done.kind, done.file, done.position, done.length) == ("flip", file, 10, 1)


def test_zero_and_rubbish(file: Path) -> None:
    zero(file, 5, 3)
    assert file.read_bytes() == DATA[:5] + bytes(3) + DATA[8:]
    rubbish(file, 90, 10, seed=3)
    assert file.read_bytes()[:90] == (DATA[:5] + bytes(3) + DATA[8:])[:90]
    assert file.read_bytes()[90:] != DATA[90:]


def test_swap_and_stale(file: Path) -> None:
    swap(file, 0, 50, 5)
    assert file.read_bytes() == DATA[50:55] + DATA[5:50] + DATA[:5] + DATA[55:]
    stale(file, 95, 60, 5)
    assert file.read_bytes()[95:] == DATA[60:65]
    assert file.read_bytes()[60:95] == DATA[60:95]


def test_cut(file: Path) -> None:
    assert cut(file, 40).length == 60
    assert file.read_bytes() == DATA[:40]


def test_nothing_goes_beyond_the_file(file: Path) -> None:
    wrong = [
        lambda: flip(file, 100),
        lambda: flip(file, -1),
        lambda: zero(file, 98, 3),
        lambda: rubbish(file, 100, 1),
        lambda: swap(file, 0, 98, 3),
        lambda: swap(file, 0, 2, 3),
        lambda: stale(file, 0, 98, 3),
        lambda: cut(file, 100),
        lambda: cut(file, -1),
    ]
    for change in wrong:
        with pytest.raises(UsageError):
            change()
    assert file.read_bytes() == DATA


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=damages())
def test_random_damage_changes_one_file_as_it_says(
    tmp_path_factory: pytest.TempPathFactory, arguments: dict[str, object]
) -> None:
    store = tmp_path_factory.mktemp("damage")
    for name in ("commitlog/0", "commitlog/1", "index/2", "checkpoint"):
        (store / name).parent.mkdir(exist_ok=True)
        (store / name).write_bytes(bytes(range(256)) * 40 + bytes(3000))
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    done = random_damage(store, **arguments)  # type: ignore[arg-type]
    changed = [path for path in before if path.read_bytes() != before[path]]
    assert set(changed) <= {done.file}
    if done.kind == "cut":
        assert done.file.stat().st_size == done.position
    else:
        assert len(before[done.file]) == done.file.stat().st_size
        assert done.position + done.length <= 256 * 40
    if done.kind in ("flip", "cut", "rubbish", "zero"):
        assert changed == [done.file]


def test_a_seed_gives_the_same_damage(tmp_path: Path) -> None:
    done = []
    for name in ("a", "b"):
        write_store(tmp_path / name, 300, commit_log_file_size=16384)
        damage = random_damage(tmp_path / name, 5, folder="commitlog")
        done.append((damage.kind, damage.file.name, damage.position, damage.file.read_bytes()))
    assert done[0] == done[1]
    kinds = {random_damage(tmp_path / "a", seed, folder="commitlog").kind for seed in range(40)}
    assert kinds == set(KINDS)


def test_an_empty_folder_cannot_be_damaged(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no files to damage"):
        random_damage(tmp_path, 1)
