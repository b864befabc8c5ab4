"""Real file systems on loop devices, whose power is cut by the shutdown call of ext4 and XFS.

The call makes the file system forget what it has not written: pages, and its journal or not. What the loop device got
stays, as on a disk. Source: EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN of the kernel's headers.
"""

import errno
import fcntl
import os
import shutil
import struct
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Self

SHUTDOWN = 0x8004587D
DROP_JOURNAL, FLUSH_JOURNAL = 2, 1
MAKE = {
    "ext4": (64, ["mkfs.ext4", "-q", "-F", "-J", "size=4", "-E", "lazy_itable_init=0,nodiscard"]),
    "xfs": (300, ["mkfs.xfs", "-q", "-f"]),  # the least that mkfs.xfs makes
}


@cache
def why_not(kind: str) -> str:
    """Why there are no such disks here, or nothing."""
    if os.geteuid() != 0:
        return "mounting a loop device needs root"
    if shutil.which(f"mkfs.{kind}") is None:
        return f"mkfs.{kind} is not installed (make debian)"
    folder = Path(os.environ.get("TMPDIR", "/tmp"), f"flintmq-loop-{os.getpid()}")
    folder.mkdir()
    try:
        with Disk(folder, kind) as disk:
            disk.cut()
        return ""
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or error
        return f"{kind} on a loop device cannot be mounted here: {str(said).strip()[:100]}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, timeout=60)


def pull_plug(mounted: str | Path, flag: int = DROP_JOURNAL) -> None:
    """Power off, unless it is: from now on every call that needs the disk fails with EIO."""
    try:
        fd = os.open(mounted, os.O_RDONLY)
    except OSError as error:
        if error.errno == errno.EIO:
            return
        raise
    try:
        fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", flag))
    finally:
        os.close(fd)


class Disk:
    """A file system in a sparse file, `image`, mounted inside `with`."""

    def __init__(self, folder: Path, kind: str, mib: int | None = None, image: Path | None = None) -> None:
        self.kind, self.mounted = kind, folder / "mnt"
        self.image = image or folder / f"disk.{kind}"
        self.on = False
        self.mounted.mkdir(parents=True, exist_ok=True)
        if not self.image.exists():
            least, make = MAKE[kind]
            with self.image.open("wb") as file:
                file.truncate((mib or least) << 20)
            run(*make, self.image)

    def __enter__(self) -> Self:
        self.mount()
        return self

    def __exit__(self, *_: object) -> None:
        self.unmount()

    def mount(self) -> None:
        """Which plays the journal, as after a power cut."""
        run("mount", "-o", "loop", self.image, self.mounted)
        self.on = True

    def unmount(self) -> None:
        """Once nobody holds a file of it; a killed process may take a moment."""
        for attempt in range(100):
            if not self.on:
                return
            try:
                run("umount", self.mounted)
                self.on = False
            except subprocess.CalledProcessError:
                if attempt == 99:
                    raise
                time.sleep(0.05)

    def cut(self, flag: int = DROP_JOURNAL) -> None:
        pull_plug(self.mounted, flag)

    def write_pages_alone(self) -> None:
        """Give the device no write of more than a page.

        Where the image cannot take all of a write, the loop driver (Linux 6.18) takes a part of it and says OK: a disk
        that lies. A page is taken or refused.
        """
        line = next(line for line in Path("/proc/self/mounts").read_text().splitlines() if f" {self.mounted} " in line)
        name = os.path.basename(line.split()[0])
        Path(f"/sys/block/{name}/queue/max_sectors_kb").write_text("4")

    def copy(self, image: Path) -> Path:
        """The image as it lies there; not while it is mounted."""
        assert not self.on
        run("cp", "--sparse=auto", self.image, image)
        return image


def tidy(folder: Path) -> None:
    """Unmount what an earlier run that was killed left below a folder."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        where = line.split()[1]
        if where.startswith(f"{folder.resolve()}/"):
            run("umount", where)
