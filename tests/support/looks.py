"""Explaining in tests: all lines of a file, checked to cover each byte once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flintmq.forensics.explain.lines import SHOWN_BYTES, Line
from flintmq.forensics.explain.run import Explained, explain


@dataclass
class Seen:
    """What explain said of a file."""

    explained: Explained
    lines: list[Line]

    @property
    def problems(self) -> list[Line]:
        return [line for line in self.lines if line.problem]

    @property
    def found(self) -> dict[str, str]:
        """What is told behind the lines."""
        return dict(self.explained.found)

    def field(self, name: str) -> Line:
        """The one line of this name."""
        [line] = [line for line in self.lines if line.name == name]
        return line

    def named(self, name: str) -> list[Line]:
        return [line for line in self.lines if line.name == name]


def look(path: Path, at: int | None = None, **how: Any) -> Seen:
    """Explain a file; every byte must be told once, in order, with the bytes that stand there."""
    with explain(path, at, **how) as explained:
        lines = list(explained.lines)
        assert explained.size == path.stat().st_size
    with path.open("rb") as file:
        position = 0
        for line in lines:
            assert line.offset == position, (path, at, line)
            assert line.length > 0 or line.problem, (path, at, line)
            position += line.length
            file.seek(line.offset)
            assert line.data == file.read(min(len(line.data), line.length)), (path, at, line)
            assert len(line.data) >= min(line.length, 1) and len(line.data) <= SHOWN_BYTES, (path, at, line)
        assert position == explained.size, (path, at, lines[-1:])
    assert explained.problems == sum(1 for line in lines if line.problem) or explained.place.kind == "json"
    return Seen(explained, lines)
