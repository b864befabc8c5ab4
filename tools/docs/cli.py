"""Writes docs/operations/cli.md from the commands: `python -m tools.docs.cli --write`.

`--check` compares the page for tests. The page cannot drift: synopsis, options and examples come from the declarations
that parse the command line, the exit codes from the error classes.
"""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from flintmq.cli.declare import REQUIRED, Parameter, parameters
from flintmq.cli.help_topics import TIMES, exit_code_rows
from flintmq.cli.names import COMMANDS
from flintmq.cli.parser import load, paragraphs, synopsis

PAGE = Path("docs/operations/cli.md")

INTRODUCTION = """\
# The command `flintmq`

Made from the commands by `python -m tools.docs.cli --write`; do not edit. The output of `--json` is described in
[json.md](json.md).

    pip install flintmq

Only `put`, `recover`, `salvage --in-place`, `follow`, `spark dispatch`, `spark sink --forget` and `spark replay` write
to an existing store. The other commands take no lock of a broker, and need none to be stopped. `STORE` is the directory
that holds `commitlog/`: a broker's `storePathRootDir`, a copy of it, or a directory with only `commitlog/` in it.

File sizes come from the existing files, else RocketMQ's defaults hold. `--set KEY=VALUE` gives settings that the files
do not record, with the names of `broker.conf`.

Text from a store is escaped: control characters, bidi controls and bytes that are no UTF-8 appear as `\\x1b`,
`\\u202e`, `\\xff`. With `--json` every line is ASCII and has the exact values.

{times}

Progress bars appear during long work if stderr is a terminal; `-q` (`--quiet`), before or after the command's name,
turns them off. A closed pipe (`flintmq scan ... | head`) is no error; a stdout that is closed from the start (`>&-`)
ends a command before it does anything. An error is one line on stderr, with `--json` a JSON object; `FLINTMQ_DEBUG=1`
adds the traceback.

`scan` and `sql` keep [zone maps](../internals/format/zone-map.md) of logs of 64 MiB and more in the user's cache, some
two thousandths of the log, so that the next question for a topic, a time or a key reads only the parts that may hold an
answer. Damage in a part that is not read is not reported: `verify` looks for it. `FLINTMQ_ZONE_MAPS=off` turns them
off; `rm -r ~/.cache/flintmq/zones` removes them.

Ctrl-C, SIGTERM (systemd, `docker stop`, `timeout`) and SIGHUP end a command in the same way: unfinished work is
removed, and the exit code is 130, 143 or 129. After `kill -9` a hidden directory may stay beside the target
(`.NAME.flintmq-copy`, `.NAME.flintmq-salvage`, `NAME/.flintmq-rebuild`); the next run with the same target removes it.
Numbers are written in digits alone; those beyond 64 bits count as the largest of 64 bits, but for the place that `get`
reads. An empty value (of a variable that is not set) and a second value of an option that has one are refused. Topics,
tags, keys and SQL are UTF-8 in any locale.

Completion by the Tab key of commands, options, their values, and topics of the store on the line, in bash, zsh or fish:
put this into the shell's start-up file.

    eval "$(flintmq completion bash)"
"""
TEMPLATES = """\
Fields of `--format` are the names of the schema in braces. A field may name its format:

| field | value |
|---|---|
| `{topic}`, `{queue_offset}`, ... | the value as text, escaped; empty if it is null |
| `{body}`, `{body:text}` | the body as escaped text |
| `{body:base64}`, `{body:hex}`, `{body:length}` | the body's bytes, or their number |
| `{store_timestamp}`, `{born_timestamp}` | ms since 1970 |
| `{store_timestamp:iso}`, `{born_timestamp:iso}` | ISO 8601 in UTC |
| `{properties}` | all properties as a JSON object |
| `{properties:NAME}` | one property, escaped; empty if it is missing |

`{{` and `}}` are braces; `\\t` and `\\n` are a tab and a line end.
"""


FOUND = (
    "`verify` found defects (notes alone are 0).",
    "`--skip-damage` skipped damage.",
    "`--decompress` met bodies that cannot be decompressed; they are shown as stored.",
    "`doctor` found something that must be repaired.",
)
"""Reasons for exit code 1 without an error."""
WIDTH = 120
SHARED = 4  # an option of at least this many commands is listed once


def page() -> str:
    """Return the whole of docs/operations/cli.md."""
    parts = [INTRODUCTION.replace("{times}", TIMES), "## Commands\n", *_contents(), ""]
    shared = _shared()
    parts += ["## Options of many commands\n", "| argument or option | meaning |", "|---|---|", *shared, ""]
    for name in COMMANDS:
        parts += [*_section(name, shared), *([TEMPLATES] if name == "scan" else [])]
    parts += ["## Exit codes\n", "| code | error | meaning |", "|---|---|---|", *exit_code_rows(), ""]
    return "\n".join(parts)


def _contents() -> Iterator[str]:
    yield "| command | purpose |"
    yield "|---|---|"
    for name in COMMANDS:
        link = f"flintmq-{name.replace(' ', '-')}"
        yield f"| [`flintmq {name}`](#{link}) | {paragraphs(load(name))[0]} |"


def _shared() -> list[str]:
    """Return the rows of arguments and options that at least SHARED commands have."""
    counts = Counter(_row(one) for name in COMMANDS for one in parameters(load(name)))
    return [row for row, count in counts.items() if count >= SHARED]


def _section(name: str, shared: list[str]) -> Iterator[str]:
    command = load(name)
    yield f"### flintmq {name}\n"
    yield f"    {synopsis(name, command)}\n"
    for paragraph in paragraphs(command):
        yield textwrap.fill(paragraph, WIDTH) + "\n"
    rows = [_row(one) for one in parameters(command)]
    own = [row for row in rows if row not in shared]
    if own:
        yield from ["| argument or option | meaning |", "|---|---|", *own, ""]
    also = ", ".join(row.split(" | ")[0].removeprefix("| ") for row in rows if row in shared)
    if also:
        yield f"{'Also' if own else 'Options'}: {also} ([above](#options-of-many-commands)).\n"
    yield "Examples:\n"
    lines = import_module(command.__module__).EPILOG.splitlines()
    yield "\n".join(f"    {line.strip()}" for line in lines if line.startswith("  flintmq ")) + "\n"


def _row(one: Parameter) -> str:
    """Return the line of a table about a parameter."""
    declared = one.declared
    if not declared.names:
        return f"| `{declared.metavar}` | {declared.help} |"
    names = ", ".join(f"`{name} {declared.metavar}`".replace(" `", "`") for name in declared.names)
    default = f" Default: `{one.usual}`." if one.usual else ""
    required = " Required." if one.default is REQUIRED else ""
    return f"| {names} | {declared.help.replace('|', chr(92) + '|')}{default}{required} |"


def main(words: list[str]) -> int:
    """Write the page below the current directory, or check it; return the exit code."""
    if words == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if words == ["--check"]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
            return 0
        sys.stderr.write(f"{PAGE} does not match the commands; run: python -m tools.docs.cli --write\n")
        return 1
    sys.stderr.write("usage: python -m tools.docs.cli --write | --check\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
