"""Pages ready before their first use: whole files, or a piece ahead of the writer; every refusal is only slower."""

import errno
import itertools
import logging
import mmap
import os
from pathlib import Path

import pytest

from flintmq import Message, MessageStore
from flintmq.storage.memory import mapped_file, warm_up
from flintmq.storage.memory.mapped_file import ASK, MappedFile
from flintmq.storage.memory.warm_up import AHEAD_S, PAGE, STEP, Ahead, WarmUp
from tests.support.faults import Faulty

SIZE = 3 * STEP


class Clock(Faulty):
    """Faulty, with a clock that a test moves."""

    seconds = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[str, int, int]] = []  # (call, position, count): populated, or stores that were told

    def monotonic(self) -> float:
        return self.seconds

    def populate(self, map_: mmap.mmap, position: int, count: int) -> None:
        self.ranges.append(("populate", position, count))
        super().populate(map_, position, count)

    def wrote(self, fd: int, position: int, count: int) -> None:
        os.fstat(fd)
        self.ranges.append(("wrote", position, count))


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


@pytest.mark.parametrize(("pages", "rest", "steps"), [
    (2 * STEP // PAGE, 0, "ppsps"), (2 * STEP // PAGE + 1, 0, "ppps"), (3 * STEP // PAGE + 1, 0, "ppps"),
    (STEP // PAGE, 0, "pspsps"),  # and none at the end, where nothing is new
    (STEP // PAGE, PAGE, "pspspsps"), (STEP // PAGE, 100, "pspspsp"), (0, 0, "ppp"),
])  # fmt: skip
def test_under_sync_flush_the_pages_are_synced_on_the_way(tmp_path: Path, pages: int, rest: int, steps: str):
    effects = Faulty()
    file = create(tmp_path, effects, SIZE + rest)
    effects.calls.clear()
    WarmUp(pages, effects).warm_up(file)
    assert "".join(name[0] for name, _ in effects.calls if name in ("populate", "sync")) == steps
    assert {path for name, path in effects.calls if name == "sync"} == ({file.path} if pages else set())
    file.close()


@pytest.mark.parametrize("how", ["populate", "wrote"])
def test_every_byte_is_made_present_once_whether_the_kernel_populates_or_not(tmp_path: Path, how: str):
    """What is stored instead is told to the disk, and no page that was populated is stored to."""
    effects = Clock()
    if how == "wrote":
        effects.refuse("populate", error=errno.EINVAL)
    file = create(tmp_path, effects, 2 * STEP + 5 * PAGE)
    WarmUp(0, effects).warm_up(file)
    pieces = [(0, STEP), (STEP, STEP), (2 * STEP, 5 * PAGE)]
    assert [piece[1:] for piece in effects.ranges if piece[0] == how] == pieces
    assert how == "wrote" or len(effects.ranges) == 3
    file.close()


def test_how_long_it_took_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "flintmq.warmup")
    effects = Clock()
    file = create(tmp_path, effects)
    effects.seconds = 100.0

    def half_a_second(name: str, path: str) -> None:
        effects.seconds += 0.5 * (name == "populate")

    effects.before = half_a_second
    WarmUp(0, effects).warm_up(file)
    assert [r.getMessage() for r in caplog.records if r.levelname == "INFO"] == [f"{file.path} is warm after 1500 ms"]
    file.close()


def test_a_full_file_is_unlocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    effects, unlocked = Faulty(), list[mmap.mmap]()
    monkeypatch.setattr(effects, "unlock_memory", unlocked.append)
    file = create(tmp_path, effects)
    WarmUp(0, effects).retire(file)
    assert unlocked == [file.map]
    file.close()


def test_what_the_system_refuses_is_told_once_and_the_file_is_as_good(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    effects = Faulty()
    for call in ("populate", "lock_memory", "advise_needed", "unlock_memory"):
        effects.refuse(call, error=errno.EPERM)
    warm = WarmUp(0, effects)
    first = ""
    for name in "ab":
        (tmp_path / name).mkdir()
        file = create(tmp_path / name, effects)
        first = first or file.path
        warm.warm_up(file)
        warm.retire(file)
        assert file.reserved == SIZE and not any(file.view)
        file.close()
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    refused = ("populated", "locked in memory", "announced to the kernel", "unlocked")
    told = "log files cannot be {} (Operation not permitted); puts may be slower"
    assert warnings == [f"{first}: {told.format(what)}" for what in refused]


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
    assert work(ahead) == 10 and effects.count("populate") == 10
    effects.seconds += 0.01
    file.reserve(4 << 20)
    assert work(ahead) == 1, "only what is new"
    assert not any(file.view[: 8 * STEP])
    file.close()


def test_the_first_window_of_a_new_file_is_followed_too(tmp_path: Path):
    """A new file came with its first window reserved, so nobody was told of the writer for 64 MiB."""
    effects = Clock()
    file = MappedFile.create(str(tmp_path / "0"), 0, 32 * STEP, effects)
    assert file.allocated == 32 * STEP
    ahead = Ahead(effects)
    file.on_reserve(ahead.asked)
    for end in range(1000, 8 << 20, 1000):  # 400 MB a second, as a log puts
        effects.seconds += 1000 / 400e6
        if end > file.reserved:
            file.reserve(end)
            work(ahead)
    assert min(position for _, position, _ in effects.ranges) < 2 << 20, effects.ranges
    file.close()


def test_a_put_tells_its_position_from_the_first_byte_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told: list[int] = []
    asked = Ahead.asked

    def noted(self: Ahead, file: MappedFile, position: int) -> bool:
        told.append(position)
        return asked(self, file, position)

    monkeypatch.setattr(Ahead, "asked", noted)
    with MessageStore(tmp_path / "store") as store:
        for _ in range(3000):
            assert store.put(Message("Orders", bytes(1000))).status.name == "PUT_OK"
    assert 0 < told[0] < ASK
    gaps = [later - before for before, later in itertools.pairwise(told)]
    assert len(told) >= 3 and max(gaps) < ASK + 10_000, told


def test_a_slow_writer_gets_nothing_that_a_flush_would_write_in_vain(tmp_path: Path):
    effects, file, ahead = followed(tmp_path)
    for number in range(10):
        for at in (number << 20 | 1, number + 1 << 20):
            effects.seconds += 1
            file.reserve(at)
            assert work(ahead) == 0
    assert effects.count("populate") == 0
    file.close()


def test_the_next_window_is_allocated_when_half_of_this_one_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapped_file, "WINDOW", 4 * STEP)
    monkeypatch.setattr(warm_up, "WINDOW", 4 * STEP)
    _, file, ahead = followed(tmp_path, populate=False)
    assert ahead.ahead_once() is False, "before any writer"
    for position, to_do, allocated in (
        (1, False, 4), (2 * STEP, False, 4), (2 * STEP + 1, True, 8), (6 * STEP, False, 8), (7 * STEP, True, 12)
    ):  # fmt: skip
        file.reserve(position)
        assert ahead.asked(file, position) is to_do
        assert (work(ahead), file.allocated) == (int(to_do), allocated * STEP)
    file.reserve(32 * STEP)
    assert ahead.asked(file, 32 * STEP) is False and work(ahead) == 0, "all of it is allocated"
    file.close()


def test_a_writer_is_fast_from_a_step_in_ahead_s_on(tmp_path: Path):
    for slower, steps in ((0.0, 1), (0.001, 0)):
        (folder := tmp_path / str(steps)).mkdir()
        effects, file, ahead = followed(folder)
        file.reserve(1)
        assert ahead.asked(file, 0) is False, "one put is no hurry"
        effects.seconds += AHEAD_S + slower
        ahead.asked(file, STEP)
        assert work(ahead) == steps
        assert effects.ranges == [("populate", STEP, STEP)][:steps]
        file.close()


@pytest.mark.parametrize(("size", "wrote"), [(8 * STEP, 777), (STEP + 100, 0)])
def test_pages_are_populated_as_far_as_they_are_allocated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, wrote: int
):
    """Not behind it, where a store may meet a full disk, and not amid a page; at the end of the file all of it."""
    for module in (mapped_file, warm_up):
        monkeypatch.setattr(module, "WINDOW", 2 * STEP)
    create(tmp_path, Faulty(), size).close()
    effects = Clock()
    file = MappedFile.open(str(tmp_path / "0"), 0, size, wrote, effects)
    ahead = Ahead(effects)
    file.reserve(wrote + 1)
    ahead.asked(file, wrote)
    effects.seconds += 0.00001
    ahead.asked(file, wrote + PAGE)
    while ahead.ahead_once():
        pass
    assert file.allocated == min(wrote + 2 * STEP, size)
    ends = [position + count for _, position, count in effects.ranges]
    assert ends[-1] == max(ends) == (file.allocated if file.allocated == size else 2 * STEP)
    file.close()


def test_a_full_disk_ahead_is_left_to_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "flintmq.warmup")
    monkeypatch.setattr(mapped_file, "WINDOW", 4 * STEP)
    monkeypatch.setattr(warm_up, "WINDOW", 4 * STEP)
    effects, file, ahead = followed(tmp_path)
    file.reserve(2 * STEP + 1)
    effects.refuse("allocate", error=errno.ENOSPC, times=1)
    assert not ahead.ahead_once()
    assert [r.getMessage() for r in caplog.records] == [
        f"{file.path}: the next window cannot be allocated yet (No space left on device)"
    ]
    file.reserve(4 * STEP + 1)
    assert file.allocated == 8 * STEP
    file.close()


def test_a_kernel_that_cannot_populate_is_not_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "flintmq.warmup")
    effects, file, ahead = followed(tmp_path)
    effects.refuse("populate", error=errno.EINVAL)
    for number in range(1, 5):
        effects.seconds += 0.001
        file.reserve(number << 20)
        assert work(ahead) == 0
    assert effects.count("populate") == 1 and ahead.asked(file, 5 << 20) is False
    assert [r.getMessage() for r in caplog.records] == [
        f"{file.path}: pages are not populated ahead of the writer (Invalid argument)"
    ]
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
    assert effects.count("populate") >= 7 and file.allocated == 8 * STEP
    file.close()
