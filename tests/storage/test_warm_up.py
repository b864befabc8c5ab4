"""Pages ready before their first use: whole files, or a piece ahead of the writer; every refusal is only slower."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from flintmq.storage import mapped_file, warm_up
from flintmq.storage.mapped_file import MappedFile
from flintmq.storage.warm_up import PAGE, STEP, Ahead, WarmUp
from tests.storage.faults import Faulty

SIZE = 3 * STEP


class Clock(Faulty):
    """Faulty, with a clock that a test moves."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def create(folder: Path, effects: Faulty, size: int = SIZE) -> MappedFile:
    return MappedFile.create(str(folder / "0"), 0, size, effects, window=0)


def test_a_warm_file_is_allocated_populated_locked_and_still_zeros(tmp_path: Path):
    effects = Faulty()
    file = create(tmp_path, effects)
    effects.calls.clear()
    WarmUp(0, effects).warm_up(file)
    assert [name for name, _ in effects.calls] == [
        "allocate", "populate", "populate", "populate", "lock_memory", "advise_needed",
    ]  # fmt: skip
    assert file.reserved == file.allocated == SIZE
    assert (tmp_path / "0").stat().st_blocks * 512 >= SIZE and not any((tmp_path / "0").read_bytes())
    file.close()


def test_under_sync_flush_the_pages_are_synced_on_the_way(tmp_path: Path):
    effects = Faulty()
    file = create(tmp_path, effects)
    effects.calls.clear()
    WarmUp(2 * STEP // PAGE, effects).warm_up(file)
    steps = [name for name, _ in effects.calls if name in ("populate", "sync")]
    assert steps == ["populate", "populate", "sync", "populate", "sync"]
    file.close()


def test_what_the_system_refuses_is_told_once_and_the_file_is_as_good(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    effects = Faulty()
    for call in ("populate", "lock_memory", "advise_needed", "unlock_memory"):
        effects.refuse(call, error=errno.EPERM)
    warm = WarmUp(0, effects)
    for name in "ab":
        (tmp_path / name).mkdir()
        file = create(tmp_path / name, effects)
        warm.warm_up(file)
        warm.retire(file)
        assert file.reserved == SIZE and not any(file.view)
        file.close()
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    refused = ("populated", "locked in memory", "announced to the kernel", "unlocked")
    assert [text.split("(")[0] for text in warnings] == [f"log files cannot be {what} " for what in refused]


@pytest.mark.parametrize("call", ["allocate", "sync"])
def test_a_full_or_broken_disk_is_an_error_of_warm_up(tmp_path: Path, call: str):
    effects = Faulty()
    file = create(tmp_path, effects)
    effects.refuse(call, error=errno.ENOSPC)
    with pytest.raises(OSError, match="space"):
        WarmUp(1, effects).warm_up(file)
    file.close()


def followed(folder: Path, **rest: bool) -> tuple[Clock, MappedFile, Ahead]:
    effects = Clock()
    file = create(folder, effects, 32 * STEP)
    ahead = Ahead(effects, **rest)
    file.asked = ahead.asked  # type: ignore[assignment]
    return effects, file, ahead


def work(ahead: Ahead) -> int:
    """How many steps there are to do."""
    steps = 0
    while ahead.ahead_once():
        steps += 1
    return steps


def test_a_fast_writer_finds_its_pages_ready(tmp_path: Path):
    effects, file, ahead = followed(tmp_path)
    file.reserve(1)
    assert work(ahead) == 0, "one put is no hurry"
    effects.seconds += 0.01
    file.reserve(2 << 20)  # 200 MB a second: 20 MB in AHEAD_S, from 2 MB on
    assert work(ahead) == 5 and effects.count("populate") == 5
    effects.seconds += 0.01
    file.reserve(4 << 20)
    assert work(ahead) == 1, "only what is new"
    assert not any(file.view[: 8 * STEP])
    file.close()


def test_a_slow_writer_gets_nothing_that_a_flush_would_write_in_vain(tmp_path: Path):
    effects, file, ahead = followed(tmp_path)
    for number in range(10):
        effects.seconds += 1
        file.reserve(number << 20 | 1)
        assert work(ahead) == 0
    assert effects.count("populate") == 0
    file.close()


def test_the_next_window_is_allocated_when_half_of_this_one_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapped_file, "WINDOW", 4 * STEP)
    monkeypatch.setattr(warm_up, "WINDOW", 4 * STEP)
    _, file, ahead = followed(tmp_path, populate=False)
    file.reserve(1)
    assert (work(ahead), file.allocated) == (0, 4 * STEP)
    file.reserve(2 * STEP + 1)
    assert (work(ahead), file.allocated) == (1, 8 * STEP)
    file.close()


def test_a_full_disk_ahead_is_left_to_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapped_file, "WINDOW", 4 * STEP)
    monkeypatch.setattr(warm_up, "WINDOW", 4 * STEP)
    effects, file, ahead = followed(tmp_path)
    file.reserve(2 * STEP + 1)
    effects.refuse("allocate", error=errno.ENOSPC, times=1)
    assert not ahead.ahead_once()
    file.reserve(4 * STEP + 1)
    assert file.allocated == 8 * STEP
    file.close()


def test_a_kernel_that_cannot_populate_is_not_asked_again(tmp_path: Path):
    effects, file, ahead = followed(tmp_path)
    effects.refuse("populate", error=errno.EINVAL)
    for number in range(1, 5):
        effects.seconds += 0.001
        file.reserve(number << 20)
        assert work(ahead) == 0
    assert effects.count("populate") == 1
    file.close()


def test_a_file_that_was_closed_is_left_alone(tmp_path: Path):
    effects, file, ahead = followed(tmp_path)
    file.reserve(1)
    effects.seconds += 0.001
    file.reserve(1 << 20)
    file.close()
    assert not ahead.ahead_once()


def test_a_file_that_was_opened_again_amid_a_page_is_followed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Found by the table of recovery times: the thread died of pages that began at an odd byte, and no log file was
    made any more after the one in use."""
    for module in (mapped_file, warm_up):
        monkeypatch.setattr(module, "WINDOW", 2 * STEP)
    create(tmp_path, Faulty(), 8 * STEP).close()
    effects = Clock()
    at = (1 << 20) + 777
    file = MappedFile.open(str(tmp_path / "0"), 0, 8 * STEP, at, effects)
    ahead = Ahead(effects)
    file.asked = ahead.asked  # type: ignore[assignment]
    while at + (1 << 20) < 8 * STEP:
        effects.seconds += 0.001
        at += 1 << 20
        file.reserve(at)
        work(ahead)
    assert effects.count("populate") >= 8 and file.allocated == 8 * STEP
    file.close()
