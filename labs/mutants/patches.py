"""The patches tests/robustness/mutants/NN-name.patch: what each breaks, which tests must fail, how it goes into the
sources.

A patch begins with lines `Name: text` (indented lines go on), then comes a unified diff of a few lines:

*   Breaks: what is wrong then, in the words of the programme, and what it would cost.
*   Killer: a pytest node id that must fail. One line each, at least one.
*   Kernels: `uncompiled`, where the patch is in a kernel: its tests then run on the sources (FLINTMQ_PURE=1).
    Compiling one kernel for one mutant would take a minute, and the sources are what is compiled.
*   Dies by: names of exceptions besides AssertionError by which a killer may fail.
*   Closest: why the mutant is not exactly the one that the programme names, if so.

Line numbers of the diff are not looked at: each of its pieces must stand in the file exactly once.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "robustness" / "mutants"
KEYS = ("Breaks", "Killer", "Kernels", "Dies by", "Closest")


class PatchError(Exception):
    """A patch that is badly written, or that the sources have outgrown."""


@dataclass(frozen=True)
class Mutant:
    """One patch.

    Attributes:
        number, name: from its file's name.
        breaks: what is wrong then.
        killers: node ids of tests that must fail.
        uncompiled: run them on uncompiled kernels.
        dies_by: names of exceptions by which they may fail.
        pieces: (path of a source, lines that stand there, lines that take their place).
    """

    number: int
    name: str
    breaks: str
    killers: tuple[str, ...]
    uncompiled: bool
    dies_by: frozenset[str]
    pieces: tuple[tuple[str, str, str], ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """The files that it changes."""
        return tuple(dict.fromkeys(path for path, _, _ in self.pieces))

    @property
    def files(self) -> set[str]:
        """Everything whose change makes it worth trying again."""
        tests = {killer.partition("::")[0] for killer in self.killers}
        return {*self.sources, *tests, f"tests/robustness/mutants/{self.number:02d}-{self.name}.patch"}

    def changed(self, root: Path) -> dict[Path, str]:
        """What the sources below `root` are with this patch.

        Raises:
            PatchError: a piece does not stand in its file exactly once.
        """
        found: dict[Path, str] = {}
        for path, old, new in self.pieces:
            file = root / path
            text = found.get(file) or (file.read_text(encoding="utf-8") if file.is_file() else "")
            if text.count(old) != 1:
                raise PatchError(
                    f"mutant {self.number}: its lines stand {text.count(old)} times in {path}, not once; write it anew"
                )
            found[file] = text.replace(old, new)
        return found


def parse(path: Path) -> Mutant:
    """One patch.

    Raises:
        PatchError: a line of its head is unknown or missing, or there is no diff.
    """
    named = re.fullmatch(r"(\d\d+)-([a-z0-9-]+)\.patch", path.name)
    head, mark, diff = path.read_text(encoding="utf-8").partition("\n--- a/")
    if named is None or not mark:
        raise PatchError(f"{path.name}: not NN-name.patch with a unified diff in it")
    words: dict[str, list[str]] = {key: [] for key in KEYS}
    for line in re.sub(r"\n[ \t]+", " ", head).splitlines():
        key, _, text = line.partition(": ")
        if line and key not in words:
            raise PatchError(f"{path.name}: {line!r} in its head; known are {', '.join(KEYS)}")
        if line:
            words[key].append(text)
    pieces = tuple(_pieces("--- a/" + diff))
    if not words["Breaks"] or not words["Killer"] or not pieces:
        raise PatchError(f"{path.name}: it must say what it breaks and name a killer, and change something")
    return Mutant(
        int(named[1]), named[2], words["Breaks"][0], tuple(words["Killer"]), "uncompiled" in words["Kernels"],
        frozenset(" ".join(words["Dies by"]).split()), pieces,
    )  # fmt: skip


def _pieces(diff: str) -> list[tuple[str, str, str]]:
    """(path, old lines, new lines) of each piece of a unified diff."""
    found: list[tuple[str, str, str]] = []
    path = ""
    for line in diff.splitlines(keepends=True):
        if line.startswith(("--- ", "+++ ")):
            path = line[6:].strip()
        elif line.startswith("@@"):
            found.append((path, "", ""))
        else:
            where, old, new = found[-1]
            kind, text = line[:1], line[1:] or "\n"
            found[-1] = where, old + (text if kind != "+" else ""), new + (text if kind != "-" else "")
    return found


def all_mutants() -> list[Mutant]:
    """Every patch of the folder, by number."""
    return sorted((parse(path) for path in FOLDER.glob("*.patch")), key=lambda mutant: mutant.number)
