"""Writes man pages from the commands, into build/man/man1: `python -m tools.docs.man`.

One page for each command, one for each group of commands, and flintmq(1). Purpose, arguments, options, examples and
exit codes come from the declarations that parse the command line. `man -l build/man/man1/flintmq-verify.1` shows a
page; `make dist` packs all of them into dist/flintmq-man.tar.xz.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from flintmq import __version__
from flintmq.cli.declare import Parameter, parameters
from flintmq.cli.help_topics import exit_code_rows
from flintmq.cli.names import COMMANDS, GROUPS, members
from flintmq.cli.options import PAGES
from flintmq.cli.parser import load, paragraphs, synopsis

FOLDER = Path("build/man/man1")


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name of each page, as in `man NAME`, and its text in roff."""
    for name in (*GROUPS, *COMMANDS):
        yield f"flintmq {name}".rstrip().replace(" ", "-"), "\n".join(_lines(name)) + "\n"


def _lines(name: str) -> Iterator[str]:
    called = f"flintmq {name}".rstrip()
    title = _text(called.replace(" ", "-"))
    texts, usage, examples, found = _of_command(name) if name in COMMANDS else _of_group(name)
    purpose, *texts = texts
    yield f'.TH {title.upper()} 1 "" "FlintMQ {_text(__version__)}" "FlintMQ"'
    yield from (".SH NAME", rf"{title} \- {_text(purpose.rstrip('.'))}", ".SH SYNOPSIS", rf"\fB{_text(usage)}\fR")
    for number, text in enumerate(texts):
        yield from (".PP" if number else ".SH DESCRIPTION", _text(text))
    inside = {} if name in COMMANDS else members(name)
    yield from _list("COMMANDS", [(rf"\fB{_text(word)}\fR", line) for word, line in inside.items()])
    yield from _list("ARGUMENTS", [_row(one) for one in found if not one.declared.names])
    yield from _list("OPTIONS", [_row(one) for one in found if one.declared.names])
    yield from (".SH EXAMPLES", ".nf", *map(_text, examples), ".fi")
    if not name:
        cells = [[cell.strip(" `") for cell in row.split("|")] for row in exit_code_rows()]
        yield from _list("EXIT STATUS", [(rf"\fB{code}\fR", meaning) for _, code, _, meaning, _ in cells])
    others = [f"flintmq-{word}" for word in inside] if not name else ["flintmq"]
    yield from (".SH SEE ALSO", *(rf"\fB{_text(other)}\fR(1)," for other in others), f"{_text(PAGES)}/cli.md")


def _of_command(name: str) -> tuple[list[str], str, list[str], list[Parameter]]:
    command = load(name)
    examples = [line.strip() for line in import_module(command.__module__).EPILOG.splitlines()[2:]]
    return paragraphs(command), synopsis(name, command), examples, parameters(command)


def _of_group(name: str) -> tuple[list[str], str, list[str], list[Parameter]]:
    words, *examples = GROUPS[name]
    texts = [" ".join(part.split()) for part in words.split("\n\n")]
    return texts, f"{f'flintmq {name}'.rstrip()} COMMAND [OPTIONS]", examples, []


def _list(heading: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    yield from [f".SH {heading}"] * bool(rows)
    for term, text in rows:
        yield from (".TP", term, _text(text))


def _row(one: Parameter) -> tuple[str, str]:
    declared = one.declared
    names = ", ".join(rf"\fB{_text(name)}\fR" for name in declared.names)
    term = f"{names} \\fI{_text(declared.metavar)}\\fR".strip() if declared.metavar else names
    return term, declared.help + (f" Default: {one.usual}." if one.usual else "")


def _text(text: str) -> str:
    """Return a text in which nothing is a request or an escape of roff."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    text = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in text)
    return re.sub(r"^(?=[.'])", r"\\&", text)


def main(words: list[str]) -> int:
    """Write the pages below the current directory; return the exit code."""
    if words:
        sys.stderr.write("usage: python -m tools.docs.man\n")
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (FOLDER / f"{name}.1").write_text(text, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
