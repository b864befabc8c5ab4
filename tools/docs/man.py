"""Writes man pages from the commands: `python -m tools.docs.man` puts them below build/man/man1.

One page for each command, one for each group of commands, and flintmq(1). Purpose, arguments, options, examples and exit
codes come from the declarations that parse the command line. `man -l build/man/man1/flintmq-verify.1` shows a page;
`make dist` packs all of them into dist/flintmq-man.tar.xz.
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
    if name in COMMANDS:
        command = load(name)
        texts, usage, found = paragraphs(command), synopsis(name, command), parameters(command)
        examples = [line.strip() for line in import_module(command.__module__).EPILOG.splitlines()[2:]]
    else:
        words, *examples = GROUPS[name]
        texts = [" ".join(part.split()) for part in words.split("\n\n")]
        usage, found = f"{called} COMMAND [OPTIONS]", []
    purpose, *texts = texts
    yield f'.TH {title.upper()} 1 "" "FlintMQ {_text(__version__)}" "FlintMQ"'
    yield from (".SH NAME", rf"{title} \- {_text(purpose.rstrip('.'))}", ".SH SYNOPSIS", rf"\fB{_text(usage)}\fR")
    for number, text in enumerate(texts):
        yield from (".PP" if number else ".SH DESCRIPTION", _text(text))
    for heading, shown in (
        ("COMMANDS", [] if name in COMMANDS else [(rf"\fB{_text(word)}\fR", members(name)[word]) for word in members(name)]),
        ("ARGUMENTS", [_row(one) for one in found if not one.declared.names]),
        ("OPTIONS", [_row(one) for one in found if one.declared.names]),
    ):
        yield from [f".SH {heading}"] * bool(shown)
        for term, text in shown:
            yield from (".TP", term, _text(text))
    yield from (".SH EXAMPLES", ".nf", *map(_text, examples), ".fi")
    if not name:
        yield from (".SH EXIT STATUS", *_exit_codes())
    others = [f"flintmq-{word}" for word in members(name)] if not name else ["flintmq"]
    yield from (".SH SEE ALSO", ",\n".join(rf"\fB{_text(other)}\fR(1)" for other in others) + ",", f"{_text(PAGES)}/cli.md")


def _row(one: Parameter) -> tuple[str, str]:
    declared = one.declared
    names = ", ".join(rf"\fB{_text(name)}\fR" for name in declared.names)
    term = f"{names} \\fI{_text(declared.metavar)}\\fR".strip() if declared.metavar else names
    return term, declared.help + (f" Default: {one.usual}." if one.usual else "")


def _exit_codes() -> Iterator[str]:
    for row in exit_code_rows():
        code, _, meaning = (cell.strip().replace("`", "") for cell in row.strip("|").split("|"))
        yield from (".TP", rf"\fB{code}\fR", _text(meaning))


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
