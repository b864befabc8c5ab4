"""Stock clients of RocketMQ as processes that obey lines: of Java, of each version, and of Go.

A client is asked by lines of JSON and answers each with one (tests/interop/oracle/README.md, `clients`). The messages
that its push consumers get come between the answers.
"""

import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.interop.java import BUILD_S, SHORT_LIVED, cache_folder, classes, home

GO = Path(__file__).resolve().parent / "go_clients"
ANSWER_S = 120.0
LOOKS = "-Drocketmq.client.rebalance.minInterval=100"  # else a consumer looks at its queues after a second
Row = dict[str, Any]


class Refused(Exception):
    """The client's own words: it could not do what it was asked for."""


class Client:
    """A running client; it ends with the `with` block.

    Args:
        kind: one of KINDS.
        words: its command line.
        folder: its home, and for what it says beside.
    """

    def __init__(self, kind: str, words: list[str], folder: Path) -> None:
        self.kind = kind
        self._errors, self._answers, self._got = folder / "clients.err", list[Row](), defaultdict[str, list[Row]](list)
        self._news = threading.Condition()
        environment = os.environ | {"HOME": str(folder)}  # Java's and Go's clients write logs there
        with self._errors.open("ab") as out:
            self.process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, env=environment
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, op: str, names: str, **words: Any) -> Row:
        """Have it do one operation at the broker of this address; its answer.

        Raises:
            Refused: it could not.
        """
        assert self.process.stdin is not None
        before = len(self._answers)
        self.process.stdin.write(json.dumps({"op": op, "names": names, **words}).encode() + b"\n")
        self.process.stdin.flush()
        with self._news:
            self._news.wait_for(lambda: len(self._answers) > before or self._is_over(), ANSWER_S)
        assert len(self._answers) == before + 1, f"{op} {words!s:.200}: no answer; {self._errors.read_text()[-1000:]}"
        answer = self._answers.pop()  # a client may live for hours
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def consume(self, consumer: str, names: str, topics: list[str], **words: Any) -> None:
        """Start a push consumer of this name, of the group of this name if no other is given."""
        self._got.pop(consumer, None)  # what one of this name got before
        self.ask("consume", names, **{"as": consumer, "group": consumer, "topics": topics, **words})

    def stop(self, consumer: str) -> list[Row]:
        """Stop a push consumer, which commits its offsets; all that it got."""
        self.ask("stop", "", **{"as": consumer})
        return self.got(consumer)

    def got(self, consumer: str) -> list[Row]:
        """All that a push consumer of this name has got so far."""
        with self._news:
            return list(self._got[consumer])

    def await_messages(self, consumer: str, count: int, seconds: float = ANSWER_S, settle_s: float = 0.5) -> list[Row]:
        """What a push consumer got, once there are so many, or time is over; those that come too much come soon."""
        with self._news:
            self._news.wait_for(lambda: len(self._got[consumer]) >= count or self._is_over(), seconds)
        time.sleep(settle_s)
        return self.got(consumer)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            row = json.loads(line)
            with self._news:
                (self._got[row["as"]] if "as" in row else self._answers).append(row)
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _is_over(self) -> bool:
        return self.process.poll() is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()  # upon which it shuts its consumers down
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(10)


KINDS = ("java-5.3.3", "java-5.5.0", "go")


def clients(kind: str, folder: Path, options: Iterable[str] = ()) -> Client:
    """Clients of this kind, or a skip; `folder` is for what they keep and say.

    `options` are Java's, else those for one that lives for seconds.
    """
    if kind == "go":
        program, why = _go_program()
        if program is None:
            pytest.skip(f"no Go client: {why}")
        return Client(kind, [str(program)], folder)
    version = kind.removeprefix("java-")
    built, why = home(version)
    if built is None:
        pytest.skip(f"RocketMQ {version}: {why}")
    path = f"{built}/target/oracle.jar:{built}/lib/*"
    options = tuple(options) or (*SHORT_LIVED, *classes(version, built), "-Xmx256m")
    words = ["java", *options, LOOKS, f"-Duser.home={folder}", "-cp", path, "flintmq.oracle.Oracle", "clients"]
    return Client(kind, words, folder)


@cache
def _go_program() -> tuple[Path | None, str]:
    """(the program, "") or (None, why there is none); built once into a cache, as the oracle is."""
    sources = sorted(path for path in GO.iterdir() if path.name.startswith(("go.", "main")))
    name = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    program = cache_folder() / f"go-clients-{name}"
    if not program.exists():
        if shutil.which("go") is None:
            return None, "it is not built, and there is no Go (go) to build it"
        staging = program.with_name(f"{program.name}-{os.getpid()}")
        words = ["go", "build", "-o", str(staging), "."]
        try:
            done = subprocess.run(words, cwd=GO, capture_output=True, text=True, timeout=BUILD_S)
        except subprocess.TimeoutExpired:
            return None, f"Go did not build it within {BUILD_S} s"
        if done.returncode:
            return None, f"Go could not build it: {done.stderr.strip()[-200:]}"
        staging.replace(program)
    return program, ""
