"""The real disk's door: what is refused, and what files do that change under it."""

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from flintmq.errors import StoreAccessError
from flintmq.storage.files import filesystem
from flintmq.storage.files.filesystem import REAL, OtherDisk
from tests.support.faults import Faulty


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name, what in (
        ("link", "is a symbolic link, which a store does not hold"), ("file/x", "Not a directory")
    ):  # fmt: skip
        with pytest.raises(StoreAccessError) as refused:
            REAL.open_read(str(tmp_path / name))
        assert str(refused.value) == f"{tmp_path / name}: {what}; check the file's kind and permissions"
    with pytest.raises(StoreAccessError, match="not a regular file"):
        REAL.open_read(str(tmp_path / "folder"))
    with pytest.raises(StoreAccessError, match="not a regular file"):
        REAL.open_read(str(tmp_path / "fifo"))  # and does not wait for a writer
    with pytest.raises(FileNotFoundError):
        REAL.open_read(str(tmp_path / "nothing"))
    with REAL.reading(str(tmp_path / "file")) as fd:
        assert REAL.pread(fd, 4, 3) == b"3456"
        assert REAL.pread(fd, 100, 8) == b"89"  # short at the end
        assert REAL.pread(fd, 4, 99) == b""
        assert REAL.size_of(fd) == 10
        with pytest.raises(OSError, match=r"Bad file descriptor|not permitted|Errno 9"):
            os.write(fd, b"x")


def test_names_and_sizes(tmp_path: Path) -> None:
    for name in "cab":
        (tmp_path / name).write_bytes(name.encode() + b"12")
    (tmp_path / "folder").mkdir()
    assert REAL.listdir(str(tmp_path)) == ["a", "b", "c", "folder"]
    assert REAL.listdir(str(tmp_path / "nothing")) == []
    assert REAL.listdir(str(tmp_path / "a")) == []
    assert (REAL.size(str(tmp_path / "a")), REAL.size(str(tmp_path / "folder"))) == (3, None)
    assert REAL.size(str(tmp_path / "nothing")) is None
    assert REAL.read_file(str(tmp_path / "a"), 2) == b"a1"
    assert REAL.read_file(str(tmp_path / "nothing"), 2) is None


def test_what_names_stand_for(tmp_path: Path) -> None:
    with open(tmp_path / "b", "wb") as file:
        file.truncate(1 << 20)
        file.write(b"x")
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "d").mkdir()
    (tmp_path / "e").symlink_to(tmp_path / "d")
    os.mkfifo(tmp_path / "c")
    found = REAL.entries(str(tmp_path))
    assert [(entry.name, entry.kind, entry.size) for entry in found] == [
        ("a", "link", 0), ("b", "file", 1 << 20), ("c", "other", 0), ("d", "folder", 0), ("e", "link", 0)
    ]  # fmt: skip
    assert [entry.on_disk for entry in found] == [None, os.stat(tmp_path / "b").st_blocks * 512, None, None, None]
    assert 0 < found[1].on_disk < 1 << 20
    assert REAL.entries(str(tmp_path / "nothing")) == REAL.entries(str(tmp_path / "b")) == []


def test_holes_can_be_told_from_data(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(1 << 20)
        file.seek(1 << 19)
        file.write(b"data")
    with REAL.reading(str(path)) as fd:
        first = REAL.next_data(fd, 0)
        assert first is not None and first <= 1 << 19
        assert REAL.next_data(fd, (1 << 19) + 2) == (1 << 19) + 2


def test_files_are_made_whole_and_never_over_another(tmp_path: Path) -> None:
    path = str(tmp_path / "new")
    fd = REAL.create(path, 5000)
    REAL.allocate(fd, 0, 4096)
    REAL.pwrite(fd, b"abc", 4998 - 1)
    REAL.sync(fd)
    with REAL.map_write(fd, 5000) as mapped:
        mapped[0:2] = b"hi"
    REAL.close(fd)
    assert Path(path).read_bytes() == b"hi" + bytes(4995) + b"abc"
    with pytest.raises(FileExistsError):
        REAL.create(path, 10)
    REAL.rename(path, path + "2")
    REAL.sync_dir(str(tmp_path))
    REAL.unlink(path + "2")
    assert REAL.listdir(str(tmp_path)) == []


def test_time_goes_on() -> None:
    before = REAL.monotonic()
    REAL.sleep(0.001)
    assert REAL.monotonic() - before >= 0.001
    assert REAL.now_ms() > 1_700_000_000_000


@pytest.mark.parametrize("most", [1, 7])
def test_a_short_write_goes_on_and_one_of_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Found by strace (`retval=0`): a write that stored nothing was tried again for ever."""
    whole, left = os.pwrite, [5]

    def short(fd: int, data: memoryview, position: int) -> int:
        left[0] -= 1
        return whole(fd, data[:most], position) if left[0] >= 0 else 0

    fd = REAL.create(str(tmp_path / "f"), 0)
    monkeypatch.setattr(os, "pwrite", short)
    REAL.pwrite(fd, b"abcde"[: 5 * most], 3)
    assert (tmp_path / "f").read_bytes() == b"\0\0\0abcde"
    left[0] = 2
    with pytest.raises(OSError, match="No space left") as full:
        REAL.pwrite(fd, bytes(100), 0)
    assert full.value.errno == errno.ENOSPC
    REAL.close(fd)


def test_below_a_folder_no_step_may_be_a_symbolic_link(tmp_path: Path) -> None:
    root = tmp_path / "store"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_bytes(b"in")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"out")
    (root / "link").symlink_to(tmp_path / "outside")
    with REAL.reading(f"{root}/a/b/file", str(root)) as fd:
        assert REAL.pread(fd, 9, 0) == b"in"
    with pytest.raises(StoreAccessError, match="symbolic link|Not a directory"):
        REAL.open_read(f"{root}/link/file", str(root))
    with pytest.raises(FileNotFoundError):
        REAL.open_read(f"{root}/a/none/file", str(root))
    assert REAL.listdir(f"{root}/a", str(root)) == ["b"]
    assert REAL.listdir(f"{root}/link", str(root)) == [], "what lies behind a link is not the store's"
    assert REAL.listdir(f"{root}/none", str(root)) == []
    with pytest.raises(AssertionError, match="is not below"):
        REAL.listdir(str(tmp_path / "storehouse"), str(root))


def test_a_chain_of_links_to_themselves_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert REAL.listdir(str(tmp_path / "loop")) == []
    with pytest.raises(StoreAccessError, match="symbolic link"):
        REAL.open_read(str(tmp_path / "loop"))


def test_a_folder_that_may_not_be_listed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: object) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "listdir", refused)
    monkeypatch.setattr(os, "scandir", refused)
    path = str(tmp_path)
    for call in (
        lambda: REAL.listdir(path),
        lambda: REAL.listdir(path, path),
        lambda: REAL.entries(path),
        lambda: REAL.regular_files(path, path),
    ):
        with pytest.raises(StoreAccessError, match=f"^{path}: Permission denied; check its permissions$"):
            call()


def test_a_file_that_goes_while_its_directory_is_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention removes files beside a reader."""
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "gone").write_bytes(b"1")
    real = os.scandir

    def listed(folder: int) -> AbstractContextManager[list[os.DirEntry[str]]]:
        with real(folder) as names:
            found = list(names)
        (tmp_path / "gone").unlink()
        return nullcontext(found)

    monkeypatch.setattr(os, "scandir", listed)
    assert REAL.regular_files(str(tmp_path), str(tmp_path)) == [("a", 5)]


def test_what_is_asked_of_a_path(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    os.utime(path, ns=(0, 1_234_567_890_123))
    assert REAL.modified_ms(str(path)) == 1_234_567
    assert REAL.modified_ms(str(tmp_path / "none")) is None
    assert REAL.is_dir(str(tmp_path)) and not REAL.is_dir(str(path))
    found = os.statvfs(tmp_path)
    used = found.f_blocks - found.f_bfree
    assert abs(REAL.disk_used(str(tmp_path)) - 100 * used / (used + found.f_bavail)) <= 2
    assert REAL.read_proc("/proc/sys/kernel/random/boot_id").count("-") == 4
    assert not REAL.remote and not REAL.watches, "a put may do everything in one kernel call"
    assert type("Other", (type(REAL),), {})().watches


def test_percent_used_is_rounded_up_of_what_users_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    found = type("Found", (), {"f_blocks": 1000, "f_bfree": 400, "f_bavail": 200})
    monkeypatch.setattr(os, "statvfs", lambda path: found)
    assert REAL.disk_used("x") == 75
    found.f_bfree, found.f_bavail = 399, 200
    assert REAL.disk_used("x") == 76, "601 of 801 are 75.03 percent"
    found.f_blocks, found.f_bfree, found.f_bavail = 1, 0, 0
    assert REAL.disk_used("x") == 100
    found.f_blocks = found.f_bfree = found.f_bavail = 0
    assert REAL.disk_used("x") == 0


def test_short_reads_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal or a network file system may give less than was asked for."""
    (tmp_path / "file").write_bytes(bytes(range(100)))
    pread, preadv, pwrite = os.pread, os.preadv, os.pwrite
    monkeypatch.setattr(os, "pread", lambda fd, count, at: pread(fd, min(count, 7), at))
    monkeypatch.setattr(os, "preadv", lambda fd, views, at: preadv(fd, [views[0][:7]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:7], at))
    with REAL.reading(str(tmp_path / "file")) as fd:
        assert REAL.pread(fd, 50, 20) == bytes(range(20, 70))
        assert REAL.pread(fd, 50, 80) == bytes(range(80, 100))
        monkeypatch.delattr(os, "preadv")
        buffer = bytearray(30)
        assert REAL.pread_into(fd, memoryview(buffer), 75) == 25 and buffer[:25] == bytes(range(75, 100))
    fd = REAL.open_write(str(tmp_path / "file"))
    REAL.pwrite(fd, bytes(range(200, 230)), 5)
    REAL.truncate(fd, 200)
    REAL.close(fd)
    data = (tmp_path / "file").read_bytes()
    assert data == bytes(range(5)) + bytes(range(200, 230)) + bytes(range(35, 100)) + bytes(100)


def test_maps_and_what_the_kernel_says_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x" * 8192)
    with REAL.reading(str(tmp_path / "file")) as fd, REAL.map_read(fd, 8192) as mapped:
        assert mapped[:2] == b"xx"
        with pytest.raises(TypeError):
            mapped[0] = 1
        for number, answer in ((0, True), (errno.EINVAL, False), (errno.ENOSYS, False)):
            asked: list[object] = []
            monkeypatch.setattr("flintmq.kernels.read.walk.present", lambda *of, n=number, a=asked: a.extend(of) or n)
            assert REAL.present(mapped, 4096, 8192) is answer and asked == [mapped, 4096, 8192]
        monkeypatch.setattr("flintmq.kernels.read.walk.present", lambda *_: errno.EFAULT)
        with pytest.raises(OSError, match="Input/output error") as broken:
            REAL.present(mapped, 0, 8192)
        assert broken.value.errno == errno.EIO, "what it means for the reader, whatever the kernel called it"
        REAL.will_read(fd, 0, 8192, sure=True)
        REAL.drop_cache(fd, 0, 8192)
        assert mapped[8191:] == b"x", "dropping the cache loses nothing"


def test_where_the_disk_cannot_tell_its_holes_all_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    with REAL.reading(str(tmp_path / "file")) as fd:
        assert REAL.next_data(fd, 100) is None, "behind the end only a hole follows"

        def refused(*_: object) -> int:
            raise OSError(errno.EINVAL, "no holes here")

        monkeypatch.setattr(os, "lseek", refused)
        assert REAL.next_data(fd, 100) == 100
        monkeypatch.delattr(os, "SEEK_DATA")
        assert REAL.next_data(fd, 50) == 50, "nor a system that has no such call"


def test_a_name_is_that_of_an_open_file_or_not(tmp_path: Path) -> None:
    fd = REAL.create(str(tmp_path / "a"), 10)
    assert REAL.is_named(fd, str(tmp_path / "a"))
    REAL.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert REAL.is_named(fd, str(tmp_path / "b")) and not REAL.is_named(fd, str(tmp_path / "a"))
    (tmp_path / "a").write_bytes(bytes(10))
    assert not REAL.is_named(fd, str(tmp_path / "a")), "another file by that name"
    REAL.close(fd)


@pytest.mark.parametrize("call", ["stat", "fstat"])
def test_a_system_that_does_not_answer_names_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A put that asks gets an answer, never an OSError (`make syscalls`)."""

    def refused(*_: object, **__: object) -> os.stat_result:
        raise OSError(errno.EIO, "Input/output error")

    fd = REAL.create(str(tmp_path / "a"), 10)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refused)
        with pytest.raises(OSError):
            REAL.is_named(fd, str(tmp_path / "a"))  # a frame of other code: it is a signal handler's
        patched.setattr(filesystem, "of_system", lambda error: True)
        assert not REAL.is_named(fd, str(tmp_path / "a"))
    REAL.close(fd)


def test_a_system_without_fdatasync_has_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, int]] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(("fdatasync", fd)))
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(("fsync", fd)))
    fd = REAL.create(str(tmp_path / "a"), 10)
    REAL.sync(fd)
    monkeypatch.delattr(os, "fdatasync")
    REAL.sync(fd)
    assert synced == [("fdatasync", fd), ("fsync", fd)]
    REAL.close(fd)


def test_a_disk_that_cannot_begin_early_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []

    def refused(fd: int, position: int, count: int) -> None:
        asked.append((fd, position, count))
        raise OSError(errno.ENOSYS, "not here")

    monkeypatch.setattr("flintmq.storage.files.libc_memory.start_sync", refused)
    REAL.start_sync(7, 4096, 8192)
    assert asked == [(7, 4096, 8192)]


def test_a_file_system_that_cannot_be_told_to_write_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def refused(fd: int) -> None:
        asked.append(os.path.samestat(os.fstat(fd), tmp_path.stat()))
        raise OSError(errno.EIO, "of another program's file")

    monkeypatch.setattr("flintmq.storage.files.libc_memory.sync_file_system", refused)
    before = len(os.listdir("/proc/self/fd"))
    REAL.start_sync_all(str(tmp_path))
    assert asked == [True] and len(os.listdir("/proc/self/fd")) == before
    (tmp_path / "link").symlink_to(tmp_path)
    for path in ("missing", "link"):
        REAL.start_sync_all(str(tmp_path / path))
    assert asked == [True], "neither a directory that is missing nor one behind a link is opened"


@pytest.mark.parametrize(
    ("system", "release", "kind", "sure"),
    [("Linux", "5.17.0-1-amd64", "ext4", True), ("Linux", "6.18.44-fc", "ext4", True), ("Linux", "10.0", "ext4", True),
     ("Linux", "5.16.20", "ext4", False), ("Linux", "5.8.0", "ext4", False), ("Linux", "4.18.0-553.el8", "ext4", False),
     ("Linux", "6.18.0", "xfs", False), ("Linux", "strange", "ext4", False), ("Darwin", "23.1.0", "ext4", False)],
)  # fmt: skip
def test_one_sync_of_a_file_system_is_trusted_where_it_tells_all_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, release: str, kind: str, sure: bool
):
    """Of data since Linux 5.8, of names and sizes since 5.17; and only ext4 always empties the disk's own cache."""
    (tmp_path / "ext4-mount").mkdir()
    monkeypatch.setattr(filesystem.os, "uname", lambda: SimpleNamespace(sysname=system, release=release))
    monkeypatch.setattr(filesystem, "_folder_of_mount", lambda path, asked: str(tmp_path / f"{kind}-mount"))
    if kind != "ext4":
        monkeypatch.setattr(filesystem, "_folder_of_mount", lambda path, asked: str(tmp_path / f"no {asked}"))
    disk = REAL.open_disk(str(tmp_path))
    assert (disk is not None) is sure
    assert REAL.open_disk(str(tmp_path / "missing")) is None
    if disk is not None:
        assert REAL.is_on_disk(disk, str(tmp_path / "ext4-mount"))
        assert not REAL.is_on_disk(disk, "/proc/self") and not REAL.is_on_disk(disk, str(tmp_path / "missing"))
        REAL.close(disk)


def test_a_file_system_that_was_not_synced_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def failed(fd: int) -> None:
        raise OSError(errno.EIO, "a page was lost")

    monkeypatch.setattr("flintmq.storage.files.libc_memory.sync_file_system", failed)
    with pytest.raises(OSError, match="a page was lost"):
        REAL.sync_disk(0)
    assert OtherDisk().open_disk(str(tmp_path)) is None


def test_a_folder_that_is_made_has_its_names_on_disk(tmp_path: Path):
    """Each directory that was missing is a name in the one above, which needs a sync."""
    effects = Faulty()
    (tmp_path / "a").mkdir()
    effects.make_folder(str(tmp_path / "a" / "b" / "c"))
    assert (tmp_path / "a" / "b" / "c").is_dir()
    assert [path for name, path in effects.calls if name == "sync_dir"] == [
        str(tmp_path / "a"),
        str(tmp_path / "a" / "b"),
    ]
    effects.calls.clear()
    effects.make_folder(str(tmp_path / "a" / "b" / "c"))
    assert effects.calls == [], "it was there"


def test_a_disk_that_knows_no_directory_is_an_error_and_not_a_search_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Found by failing every `stat` with EROFS: the way up from a folder ends at the root."""
    (tmp_path / "a").mkdir()
    looks = iter(range(1000))

    def unknown(path: object) -> bool:
        next(looks)
        return False

    monkeypatch.setattr(os.path, "isdir", unknown)
    with pytest.raises(FileExistsError):
        REAL.make_folder(str(tmp_path / "a"))


def test_a_look_at_a_directory_is_what_single_calls_say(tmp_path: Path) -> None:
    """Of all kinds of content; both from outside and from within the directory."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"x" * 9000)

    def file(folder: Path, size: int, name: str = "file", hole: bool = True) -> None:
        (folder / name).write_bytes(b"x" * 4000 + bytes(0 if hole else size - 4000))
        with open(folder / name, "r+b") as written:
            written.truncate(size)
            os.fsync(written.fileno())  # until then a file system may show more data than there is

    kinds: dict[str, Callable[[Path], object]] = {
        "empty": lambda folder: None,
        "one": lambda folder: file(folder, 60_000),
        "just so": lambda folder: file(folder, 4096),
        "short": lambda folder: file(folder, 4095),
        "no bytes": lambda folder: file(folder, 0),
        "data after": lambda folder: (folder / "file").write_bytes(b"x" * 60_000),
        "no hole": lambda folder: file(folder, 60_000, hole=False),
        "two": lambda folder: [file(folder, 60_000, name) for name in "ba"],
        "beside a directory": lambda folder: [file(folder, 60_000), (folder / "inner").mkdir()],
        "a directory": lambda folder: (folder / "inner").mkdir(),
        "a link": lambda folder: (folder / "file").symlink_to(tmp_path / "elsewhere" / "file"),
        "a fifo": lambda folder: os.mkfifo(folder / "file"),
    }
    for name, make in kinds.items():
        folder = tmp_path / "below" / name
        folder.mkdir(parents=True)
        make(folder)
    (tmp_path / "below" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "below" / "a file").write_bytes(b"x")
    open_before = len(os.listdir("/proc/self/fd"))
    other, seen = OtherDisk(), {}
    for name in [*kinds, "linked", "a file", "missing", "missing/inner"]:
        path, below = str(tmp_path / "below" / name), str(tmp_path / "below")
        assert REAL.regular_files(path, below) == other.regular_files(path, below)
        seen[name] = REAL.only_file(path, below, 4096)
        assert seen[name] == other.only_file(path, below, 4096)
        with REAL.entered(path, below):
            assert REAL.regular_files(path, below) == seen[name][0]
            assert REAL.only_file(path, below, 4096) == seen[name]
    assert len(os.listdir("/proc/self/fd")) == open_before
    first = b"x" * 4000 + bytes(96)
    assert {name: data for name, (_, data) in seen.items() if data is not None} == {"one": first, "just so": first}
    assert seen["two"][0] == [("a", 60_000), ("b", 60_000)]
    assert seen["data after"][0] == [("file", 60_000)] and seen["a link"][0] == seen["linked"][0] == []


def test_a_directory_that_may_not_be_looked_at_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: object) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(StoreAccessError, match="Permission denied; check its permissions"):
        REAL.only_file(str(tmp_path), str(tmp_path), 4096)


@pytest.mark.parametrize("number", [0, 1])
def test_a_directory_may_be_descriptor_0_or_1(tmp_path: Path, number: int):
    """A service may be started with its standard input or output closed."""
    outer = tmp_path / "outer"
    (outer / "inner").mkdir(parents=True)
    (outer / "inner" / "file").write_bytes(b"x")
    saved = os.dup(number)
    os.close(number)
    try:
        with filesystem._Folder(str(outer), str(outer)) as fd:
            assert fd == number
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
        with REAL.entered(str(outer), str(outer)):
            assert os.fstat(number).st_ino == outer.stat().st_ino
            moved = outer.rename(tmp_path / "moved")  # what is kept open is used, not its name
            assert REAL.listdir(str(outer), str(outer)) == REAL.listdir(str(outer), str(tmp_path)) == ["inner"]
            assert REAL.listdir(str(outer / "inner"), str(outer)) == ["file"]
            moved.rename(outer)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
    finally:
        os.dup2(saved, number)
        os.close(saved)


def test_a_directory_that_is_missing_is_told_as_such(tmp_path: Path):
    with pytest.raises(FileNotFoundError), filesystem._Folder(str(tmp_path / "none"), str(tmp_path / "none")):
        pass


def test_the_only_file_of_another_disk_is_opened_below_the_store_too(tmp_path: Path):
    asked = []

    class Watching(OtherDisk):
        def open_read(self, path: str, below: str | None = None) -> int:
            asked.append((path, below))
            return super().open_read(path, below)

    (tmp_path / "one").write_bytes(bytes(4096))
    folder = str(tmp_path)
    assert Watching().only_file(folder, folder, 4096) == ([("one", 4096)], bytes(4096))
    assert asked == [(str(tmp_path / "one"), folder)]
