"""The examples of README.md and docs/: what they are, how they run, and how their outputs are written anew.

In a page:
- A block marked `console` holds commands after `$ ` with their outputs. They run one after the other in a directory of
  the page that holds golden stores under their names (`basic/`, `rolled/`, ...) and programs of examples/: in bash, but
  a `flintmq` command that stands alone in this process, which takes a tenth of the time. A command ends with its line,
  but for `\\` at the end of that, and `<<'END'`, which goes on to the line `END`.
- A block marked `python` runs there as a program; a block marked `text` right behind it is its output.
- `<!-- scene: NAME -->` before a block: tests/support/scenes.py first makes the store `store/` of that name.
- `<!-- master: NAME -->` before a block: while it runs, tests/support/masters.py serves the master of that name, which
  the block calls `broker:10912`.
- Blocks of any other kind, and indented ones, are not run.

One rule for what varies: **`...` stands for any text in a line, and alone on a line for any lines.** `--write` runs
each page twice, in two directories. An output that still is as the page says stays as it is, so what an author left out
stays left out; any other is written as printed, with `...` for each word that differs between the two runs.

    python -m tests.harness.pages --write docs/operations/runbooks  # outputs anew; alone: the runbooks, the first hour
    python -m tests.harness.pages --fresh  # compare, in a new environment with FlintMQ installed
"""

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from tests.compat.stores import GOLDEN_NAMES, Golden
from tests.harness.one_java import FITS, OneJava
from tests.support.scenes import SCENES

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ("docs/operations/runbooks", "docs/guide/first-hour.md")
BLOCK = re.compile(
    r"(?:^<!-- scene: (\S+) -->\n\s*)?(?:^<!-- master: (\S+) -->\n\s*)?"
    r"^```(console|python)\n(.*?)^```\n(?:(\s*^```text\n)(.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
ALONE = re.compile(r"flintmq (?!spark\b)(?:[\w./:=,@%+-]|'[^'\n]*'|\"[^\"\n\\$`]*\"| )+")
"""A command that needs no shell: words, and words in quotes."""
SECONDS = 300
ENVIRONMENT = {"COLUMNS": "100", "NO_COLOR": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"}


class Example(NamedTuple):
    """One block of a page."""

    where: str  # page and line
    kind: str  # `console` or `python`
    code: str
    output: str | None  # what a program prints; None for a console block, or where the page does not say
    scene: str | None  # the store that is made before
    master: str | None = None  # what is served meanwhile


class Command(NamedTuple):
    """One command of a console block, and the output that the page shows."""

    code: str
    output: str


def lacks(example: Example) -> str:
    """Why a block cannot be run here; empty if it can."""
    if made_for := re.search(r"-spark[\w-]*_(\d\.\d)_", example.code):  # a writer of Delta's or Iceberg's own
        spark = ".".join(version("pyspark").split(".")[:2])
        return "" if spark == made_for[1] else "the lake's own writers are not there for this Spark (make lake-writers)"
    if re.search(r"\.remote\(|spark-pipelines", example.code):
        if find_spec("grpc") is None:
            return "grpcio is not installed"
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            return "no Java runtime"
        if "import JAR" in example.code and not (ROOT / "src/flintmq/spark/door/flintmq-door.jar").is_file():
            return "the jar was not built (tools/door_jar.py says why)"
    return "jq is not installed" if re.search(r"\|\s*jq\b", example.code) and shutil.which("jq") is None else ""


def on_spark(example: Example) -> bool:
    """Whether a block runs on Spark, all of it or some commands, in a way that `OneJava` can run."""
    if example.kind == "console":
        return any(FITS.fullmatch(command.code) for command in commands(example.code))
    return re.search(r"pyspark|flintmq\.spark", example.code) is not None


def shares_java(example: Example) -> bool:
    """Whether `OneJava` can run a block: Connect, and packages for Java, want a Java machine of their own."""
    return on_spark(example) and not re.search(r"\.remote\(|spark\.jars\.packages", example.code)


def pages(names: Sequence[str] = ()) -> list[Path]:
    """The pages of these names below the root, directories whole; without names all that have examples."""
    if not names:
        return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [ROOT / name for name in names]
    return [page for path in found for page in (sorted(path.rglob("*.md")) if path.is_dir() else [path])]


def examples(page: Path) -> Iterator[Example]:
    """Every block of a page that is to be run, in order."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start(3)) + 1
        scene, master, kind, code, _, output = match.groups()
        yield Example(
            f"{page.relative_to(ROOT)}:{line}", kind, code, output if kind == "python" else None, scene, master
        )


def commands(code: str) -> Iterator[Command]:
    """The commands of a console block; ValueError: it does not begin with one."""
    parts = re.split(r"^\$ ", code, flags=re.MULTILINE)
    if parts[0] or len(parts) < 2:
        raise ValueError("a console block begins with `$ `")
    for part in parts[1:]:
        command, _, rest = part.partition("\n")
        while command.endswith("\\"):
            more, _, rest = rest.partition("\n")
            command += "\n" + more
        if here := re.search(r"<<'(\w+)'", command):
            text, end, rest = rest.partition(f"\n{here[1]}\n")
            command += "\n" + text + end.rstrip("\n")
        yield Command(command, rest)


def run_example(
    example: Example, folder: Path, bin_folder: Path | None = None, java: OneJava | None = None
) -> Iterator[tuple[Command, str]]:
    """Run a block in the page's directory; gives each command (or the program) and what it printed.

    `bin_folder` has the scripts of another environment, which then runs everything. `java` works in this directory and
    runs what `on_spark` says; without it that gets processes of its own. RuntimeError: a program failed, or is missing.
    """
    if reason := lacks(example):
        raise RuntimeError(f"{example.where}: {reason}")
    if example.scene is not None:
        SCENES[example.scene](folder / "store")
    if example.master is not None:
        from tests.support.masters import MASTERS  # with the demo, which a copy of sources and tests does not have

        with MASTERS[example.master]() as addresses:
            code = _replaced(example.code, addresses)
            found = run_example(example._replace(code=code, scene=None, master=None), folder, bin_folder, java)
            names = {address: name for name, address in addresses.items()}
            for command, printed in found:
                yield (
                    Command(_replaced(command.code, names), _replaced(command.output, names)),
                    _replaced(printed, names),
                )
        return
    if example.kind == "console":
        for command in commands(example.code):
            if java is not None and (fits := FITS.fullmatch(command.code)):
                ran = java.command(shlex.split(fits[1])[1:])
                (folder / fits[2]).write_text(ran.err, encoding="utf-8")
                yield command, ran.out
            else:
                yield command, _console(command.code, folder, bin_folder)
        return
    if java is not None and shares_java(example):
        code, out, err = java.program(example.code)
        if code:
            raise RuntimeError(f"{example.where}: {err[-2000:]}")
        yield Command(example.code, example.output or ""), out
        return
    python = str(bin_folder / "python") if bin_folder else sys.executable
    done = run([python, "-c", example.code], folder, subprocess.PIPE, bin_folder)
    if done.returncode:
        raise RuntimeError(f"{example.where}: {done.stderr[-2000:]}")
    yield Command(example.code, example.output or ""), done.stdout


def _replaced(text: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        text = text.replace(name, other)
    return text


def _console(code: str, folder: Path, bin_folder: Path | None) -> str:
    if bin_folder is None and ALONE.fullmatch(code):
        return run_here(shlex.split(code)[1:], folder)
    return run(["bash", "-c", code], folder, bin_folder=bin_folder).stdout


def run(
    words: list[str], folder: Path, errors: int = subprocess.STDOUT, bin_folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command as a user with a terminal of 100 columns does; its errors among its output unless told."""
    path = os.pathsep.join([str(bin_folder or Path(sys.executable).parent), os.environ["PATH"]])
    # A page's own pytest knows nothing of the options that this one was started with.
    left_out = {"PYTEST_ADDOPTS", *(["PYTHONPATH"] if bin_folder is not None else [])}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return subprocess.run(
        words,
        cwd=folder,
        env={**kept, "PATH": path, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=errors,
        timeout=SECONDS,
        encoding="utf-8",
    )


def run_here(words: Sequence[str], folder: Path) -> str:
    """What `flintmq WORDS` prints in a directory, errors among it; run within this process."""
    from flintmq.cli import app

    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before, streams = {name: os.environ.get(name) for name in ENVIRONMENT}, (sys.stdin, sys.stdout, sys.stderr)
    with contextlib.chdir(folder), open(os.devnull, encoding="utf-8") as nothing:
        try:
            os.environ.update(ENVIRONMENT)
            time.tzset()
            sys.stdin, sys.stdout, sys.stderr = nothing, printed, printed
            app.run(words)
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
            time.tzset()
    printed.flush()
    return printed.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]


def same(expected: str, found: str) -> bool:
    """Whether the output is the one of the page; `...` is a wildcard, blanks at line ends do not count."""
    lines = [line.rstrip() for line in expected.strip("\n").splitlines()]
    pattern = ""
    for line in lines:
        pattern += "(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n"
    clean = "".join(line.rstrip() + "\n" for line in found.strip("\n").splitlines())
    return re.fullmatch(pattern, clean) is not None


def masked(one: str, other: str) -> str:
    """An output with `...` for each word that another run gave differently; of a path its last, common part stays.

    Raises:
        ValueError: the runs differ in the number of lines or words, so that nobody can say which word is which.
    """
    left, right = one.splitlines(), other.splitlines()
    if len(left) != len(right):
        raise ValueError(f"two runs print {len(left)} and {len(right)} lines:\n{one}---\n{other}")
    lines = []
    for first, second in zip(left, right, strict=True):
        words, others = re.findall(r"\s*\S+", first), re.findall(r"\s*\S+", second)
        if len(words) != len(others):
            raise ValueError(f"two runs differ in their words:\n{first}\n{second}")
        lines.append("".join(_masked_word(word, again) for word, again in zip(words, others, strict=True)))
    return "".join(line + "\n" for line in lines)


def _masked_word(word: str, again: str) -> str:
    if word == again:
        return word
    blanks = re.match(r"\s*", word)[0]  # type: ignore[index]
    parts, others = word.split("/"), again.split("/")
    same_parts = takewhile(lambda pair: pair[0] == pair[1], zip(parts[:0:-1], others[:0:-1], strict=False))
    kept = "".join(f"/{part}" for part, _ in list(same_parts)[::-1])
    return (blanks if again.startswith(blanks) and not again[len(blanks)].isspace() else "") + "..." + kept


@contextlib.contextmanager
def folder_of(page: Path) -> Iterator[Path]:
    """An empty directory, but for the golden stores that the page names."""
    with tempfile.TemporaryDirectory(prefix="pages-") as name:
        fill(Path(name), page)
        yield Path(name)


def fill(folder: Path, page: Path) -> None:
    """Put what a page names into an empty directory: golden stores, and programs of examples/ (`python NAME.py`)."""
    for store in stores_of(page):
        Golden(store, folder)
    codes = " ".join(example.code for example in examples(page))
    for program in (ROOT / "examples").rglob("*.py"):
        if f"python {program.name} " in codes:
            shutil.copy(program, folder)


def stores_of(page: Path) -> set[str]:
    """The golden stores that the examples of a page name."""
    codes = " ".join(example.code for example in examples(page))
    return set(re.findall(r"(?<![\w/-])[\w-]+", codes)) & set(GOLDEN_NAMES)


@dataclass
class Run:
    """All commands of a page, and what they printed."""

    page: Path
    bin_folder: Path | None = None

    def outputs(self) -> Iterator[tuple[Example, list[tuple[Command, str]]]]:
        """Every block with its commands, run in one new directory."""
        with folder_of(self.page) as folder:
            for example in examples(self.page):
                yield example, list(run_example(example, folder, self.bin_folder))


def wrong(page: Path, bin_folder: Path | None = None) -> list[str]:
    """What the commands of a page print otherwise than it says."""
    return [
        f"{example.where}: {command.code}\nprints:\n{found}"
        for example, found_all in Run(page, bin_folder).outputs()
        for command, found in found_all
        if (example.kind == "console" or example.output is not None) and not same(command.output, found)
    ]


def rewritten(page: Path) -> str:
    """The text of a page with the outputs of now."""
    twice = zip(Run(page).outputs(), Run(page).outputs(), strict=True)
    blocks = iter([_block(example, one, other) for (example, one), (_, other) in twice])
    return BLOCK.sub(lambda match: _put(match, next(blocks)), page.read_text(encoding="utf-8"))


def _block(example: Example, one: list[tuple[Command, str]], other: list[tuple[Command, str]]) -> str:
    """The outputs of a block: of a program alone, of commands behind each."""
    parts = []
    for (command, found), (_, again) in zip(one, other, strict=True):
        stays = same(command.output, found) and same(command.output, again)
        output = command.output if stays else _lines(masked(found, again))
        parts.append(output if example.kind == "python" else f"$ {command.code}\n{output}")
    return "".join(parts)


def _lines(text: str) -> str:
    """Without blanks at line ends, and without empty lines at both ends."""
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip("\n") + "\n" if text.strip() else ""


def _put(match: re.Match[str], block: str) -> str:
    whole, start = match[0], match.start()
    group = 4 if match[3] == "console" else 6
    if match[group] is None:
        return whole
    begin, end = match.span(group)
    return whole[: begin - start] + block + whole[end - start :]


@contextlib.contextmanager
def fresh_environment() -> Iterator[Path]:
    """The scripts of a new environment with FlintMQ installed as docs/guide/first-hour.md says; needs a package
    index."""
    with tempfile.TemporaryDirectory(prefix="fresh-") as name:
        tree = Path(name, "tree")  # a build writes into the tree that it builds
        shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
        for file in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
            shutil.copy(ROOT / file, tree / file)
        subprocess.run([sys.executable, "-m", "venv", f"{name}/venv"], check=True)
        pip = [f"{name}/venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"{tree}[duckdb]", "pytest"], check=True)
        yield Path(name, "venv", "bin")


def main(words: Sequence[str]) -> int:
    """Compare or write pages; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.pages", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", help=f"pages or directories (default: {' '.join(WRITTEN)})")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--write", action="store_true", help="write the outputs of now into the pages")
    way.add_argument("--fresh", action="store_true", help="run everything in a new environment with FlintMQ installed")
    asked = parser.parse_args(words)
    with fresh_environment() if asked.fresh else contextlib.nullcontext() as bin_folder:
        count = 0
        for page in pages(asked.pages or WRITTEN):
            if asked.write:
                page.write_text(rewritten(page), encoding="utf-8")
            else:
                found = wrong(page, bin_folder)
                count += len(found)
                print("\n".join([f"{page.relative_to(ROOT)}: {len(found)} differ", *found]), flush=True)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
