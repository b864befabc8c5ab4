"""Holds the topics of `flintmq help`; docs/operations/cli.md has the same texts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from flintmq.cli.options import PAGES
from flintmq.errors import FlintError

EXIT_INTERNAL = 10
"""Exit code of a bug of FlintMQ itself."""
EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells count it."""
EXIT_TERMINATED = 143
"""Exit code after SIGTERM, likewise."""

TIMES = """\
**TIME** is ISO 8601 (`2024-11-20`, `2024-11-20T11:24:33+08:00`; UTC where no zone is given), digits alone (ms since
1970; `"$(date +%s)000"` in a shell), an age (`-15m`, `-1h30m`; units `ms s m h d w`), or `now`. Digits before 1990,
such as seconds or `20241120`, are refused; `0` is the beginning."""


def help_text(topic: str) -> str | None:
    """Return the text of `flintmq help TOPIC`; None if the topic may be a command's name."""
    if not topic:
        return f"""flintmq help exit-codes    the meaning of the exit codes
flintmq help times         the format of times
flintmq help COMMAND       the same as flintmq COMMAND --help

All commands, and the findings of verify (verify.md): {PAGES}/cli.md"""
    if topic == "exit-codes":
        rows = [[cell.strip().strip("`") for cell in row.split("|")[1:4]] for row in exit_code_rows()]
        width = max(len(name) for _, name, _ in rows)
        return "\n".join(f"{code:>4}  {name:<{width}}  {meaning.replace('`', '')}" for code, name, meaning in rows)
    if topic == "times":
        return textwrap.fill(TIMES.replace("*", "").replace("`", ""), 100)
    return None


def exit_code_rows() -> Iterator[str]:
    """Yield the lines of the table of exit codes, in Markdown: code, name of the error, meaning."""
    rows = [(0, "", "Fine.")]
    rows += [(error.exit_code, f"`{error.__name__}`", _meaning(error)) for error in _tree(FlintError)]
    rows += [
        (1, "", "`verify` or `scan --skip-damage` found damage, `rebuild` a mismatch, `doctor` a broken installation")
    ]
    rows += [(5, "`OSError`", "The system refuses to read or write a file.")]
    rows += [
        (EXIT_INTERNAL, "", "A bug of FlintMQ: please report it."),
        (129, "", "Ended by SIGHUP: the terminal was closed."),
        (EXIT_INTERRUPTED, "", "Interrupted (Ctrl-C)."),
        (EXIT_TERMINATED, "", "Ended by SIGTERM."),
    ]
    for code, name, meaning in sorted(rows, key=lambda row: row[0]):
        yield f"| {code} | {name} | {meaning} |"


def _tree(error: type[FlintError]) -> Iterator[type[FlintError]]:
    yield error
    for child in error.__subclasses__():
        if child.__module__ == FlintError.__module__:
            yield from _tree(child)


def _meaning(error: type[FlintError]) -> str:
    return (error.__doc__ or "").strip().splitlines()[0]
