"""Packs this package for workers that do not have it."""

from __future__ import annotations

import gzip
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from flintmq.errors import UsageError
from flintmq.storage.files.whole_file import new_file

ARCHIVE = "flintmq-spark.tar.gz"
FOLDER = "flintmq-spark"  # where workers find the contents, below their working directory
ENDINGS = (".py", ".so", ".typed", ".html", ".css", ".js", ".svg", ".json")
"""What a worker needs of the package: modules, compiled kernels, templates."""


def pack(path: str | os.PathLike[str] = ARCHIVE) -> dict[str, str]:
    """Pack the installed package for workers that have none; return settings that carry it.

        spark = flintmq.spark.session("orders", "spark://master:7077", **flintmq.spark.pack())

    Spark copies the archive to each worker, unpacks it there, and its Python imports the package from it. Workers need
    the rest of the extra `spark` (pyspark, pyarrow, pandas), the same version of Python, and the same kind of machine:
    kernels are compiled code.

    Args:
        path: the archive to write; one that is there is replaced.

    Returns:
        `spark.archives` and `spark.executorEnv.PYTHONPATH`, for a session or spark-submit. If your own settings have
        these too, join them: archives by commas, paths by colons.

    Raises:
        UsageError: the directory of the archive is not there, or may not be written.
    """
    target = os.path.abspath(path)
    if not os.path.isdir(os.path.dirname(target)):
        raise UsageError(f"{os.path.dirname(target)} is not a directory; make it first, or give another path")
    try:
        with new_file(target) as part, open(part, "wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as zipped:
            with tarfile.open(mode="w", fileobj=zipped) as archive:
                for source, name in _files():
                    archive.add(source, name, recursive=False, filter=_plain)
    except OSError as error:
        raise UsageError(f"{target}: {error.strerror}; give a path that can be written") from error
    return {"spark.archives": f"{target}#{FOLDER}", "spark.executorEnv.PYTHONPATH": FOLDER}


def _files() -> Iterator[tuple[Path, str]]:
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*")):
        if path.suffix in ENDINGS and "__pycache__" not in path.parts and path.is_file():
            yield path, f"flintmq/{path.relative_to(root).as_posix()}"
    finder = root.parent / "pyspark_flintmq.py"
    if finder.is_file():
        yield finder, finder.name


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who packed it and when: the same package gives the same archive."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o644
    return info
