"""Spark examples of pages, one after the other in one process: Java's start is most of what each costs alone.

Every command and every program makes its session and ends it, as in a process of its own; only the Java machine stays,
with its working directory, which is why they share one. Used by the tests of pages; `python -m tests.harness.pages`
runs each example in a new process, as a reader does.
"""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FITS = re.compile(
    r"(flintmq (?=spark\b|rebuild\b.* --engine spark\b)(?:[\w./:=,@%+-]|'[^'\n]*'|\"[^\"\n\\$`]*\"| )+)"
    r" 2> ?(/dev/null|[\w.]+)"
)
"""A command for Spark that needs no shell: words, and words in quotes; and the file that its errors go to."""


class Done(NamedTuple):
    """What a command or a program did: exit code, and what it printed."""

    code: int
    out: str
    err: str


class OneJava:
    """The process; it starts with the first example, in a directory that stays the same, `folder`."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self._environment = folder, environment
        self._process: subprocess.Popen[str] | None = None

    def command(self, words: Sequence[str]) -> Done:
        return self._ask({"words": list(words)})

    def program(self, code: str) -> Done:
        """Run a Python program; its exit code is 1 if it raises."""
        return self._ask({"program": code})

    def empty(self) -> None:
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def close(self) -> None:
        """End the process, and Java with it."""
        if self._process is not None:
            self._process.communicate(timeout=60)

    def _ask(self, task: dict[str, Any]) -> Done:
        if self._process is None:
            places = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(places), **self._environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process ended with {self._process.wait(60)} while it ran {task}")
        return Done(*json.loads(answer))


def _run(task: dict[str, Any]) -> Done:
    from flintmq.cli import app

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        if "words" in task:
            code = app.run(task["words"])
        else:
            try:
                exec(compile(task["program"], "<example>", "exec"), {"__name__": "__main__"})
                code = 0
            except Exception:
                traceback.print_exc()
                code = 1
        _end_session()
    return Done(code, *(stream.buffer.getvalue().decode("utf-8") for stream in (out, err)))  # type: ignore[attr-defined]


def _end_session() -> None:
    """What the end of a process does to its session."""
    if "pyspark.sql" in sys.modules:
        from pyspark.sql import SparkSession

        if (running := SparkSession.getActiveSession()) is not None:
            running.stop()


def main() -> None:
    """Run what comes on stdin, a JSON object a line; answers go to stdout, where nothing else may print."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        nothing = os.open(os.devnull, os.O_RDWR)
        tasks = os.fdopen(os.dup(0), encoding="utf-8")
        for number in (0, 1):  # Java and the workers of Spark get these
            os.dup2(nothing, number)
        for line in tasks:
            print(json.dumps(_run(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
