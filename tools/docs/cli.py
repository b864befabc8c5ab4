"""Writes docs/operations/cli.md from the commands: `python -m tools.docs.cli --write`.

`--check` compares the page for tests. The page says what each command is for, and where its own page and its JSON are
described; options are in `flintmq COMMAND --help` alone. It cannot drift: purpose, exit codes and examples come from
the declarations that parse the command line, the table of exit codes from the error classes, links from what is there.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from flintmq.cli.help_topics import TIMES, exit_code_rows
from flintmq.cli.names import COMMANDS
from flintmq.cli.parser import load, paragraphs, synopsis

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path("docs/operations/cli.md")

INTRODUCTION = """\
# The command `flintmq`

Made from the commands by `python -m tools.docs.cli --write`; do not edit. **`flintmq COMMAND --help` has all options of
a command**, and more about it.

Only `put`, `dead --send-into`, `recover`, `salvage --in-place`, `follow`, `spark dispatch`, `spark sink --forget` and
`spark replay` write to an existing store. The other commands take no lock of a broker, and need none to be stopped.
`STORE` is the directory that holds `commitlog/`: a broker's `storePathRootDir`, a copy of it, or a directory with only
`commitlog/` in it. Commands that read take a [URL](object-storage.md) too; those with `STORE...` take several stores, a
pattern or a manifest ([scale](../spark/scale.md)).

File sizes come from the existing files, else RocketMQ's defaults hold. `--set KEY=VALUE` gives settings that the files
do not record, with the names of `broker.conf`.

Text from a store is escaped: control characters, bidi controls and bytes that are no UTF-8 appear as `\\x1b`,
`\\u202e`, `\\xff`. With `--json` every line is ASCII and has the exact values ([json.md](json.md)).

{times}

Progress bars appear during long work if stderr is a terminal; `-q` (`--quiet`), before or after the command's name,
turns them off. A closed pipe (`flintmq scan ... | head`) is no error; a stdout that is closed from the start (`>&-`)
ends a command before it does anything. An error is one line on stderr, with `--json` a JSON object; `FLINTMQ_DEBUG=1`
adds the traceback.

`scan` and `sql` keep [zone maps](../internals/format/zone-map.md) of logs of 64 MiB and more in
`~/.cache/flintmq/zones`, and skip parts of the log that cannot hold an answer. Damage in a part that is not read is not
reported: `verify` looks for it. `FLINTMQ_ZONE_MAPS=off` turns them off.

Ctrl-C, SIGTERM and SIGHUP end a command in the same way: unfinished work is removed, and the exit code is 130, 143 or
129. After `kill -9` a hidden directory may stay beside the target (`.NAME.flintmq-copy`, `.NAME.flintmq-salvage`,
`NAME/.flintmq-rebuild`); the next run with the same target removes it. Numbers are written in digits alone; those
beyond 64 bits count as the largest of 64 bits, but for the place that `get` reads. An empty value (of a variable that
is not set) and a second value of an option that has one are refused.

The Tab key completes commands, options, their values, and topics of the store on the line, in bash, zsh or fish, with
this line in the shell's start-up file:

    eval "$(flintmq completion bash)"
"""
TEMPLATES = """\
Fields of `--format`, of `tail` too, are the names of the schema in braces. A field may name its format:

| field | value |
|---|---|
| `{topic}`, `{queue_offset}`, ... | the value as text, escaped; empty if it is null |
| `{body}`, `{body:text}` | the body as escaped text |
| `{body:base64}`, `{body:hex}`, `{body:length}` | the bytes of the body that is shown, or their number |
| `{store_timestamp}`, `{born_timestamp}` | ms since 1970 |
| `{store_timestamp:iso}`, `{born_timestamp:iso}` | ISO 8601 in UTC |
| `{properties}` | all properties as a JSON object |
| `{properties:NAME}` | one property, escaped; empty if it is missing |

`{{` and `}}` are braces; `\\t` and `\\n` are a tab and a line end.

`--body text`, `json`, `avro` or `protobuf` shows bodies decoded, of `tail`, `get` and `query` too, with the options of
[exports](../spark/export.md#properties-and-bodies-as-columns), and implies `--decompress`; `--body json` needs no
schema. Then `{body}` and `--grep` mean the decoded body, as JSON. One that does not decode is shown as it is, with the
reason; stderr counts them, and the exit code is 1. With `--json` there are
[two more keys](json.md#a-message-scan-tail-get-query).

    flintmq scan /var/rocketmq/store --topic Orders --body json --json | jq .body
"""


WIDTH = 120
PLACES = ("docs/operations", "docs/spark", "docs/guide")
"""Where a command may have a page of its own; the first one with its name is it."""
WITH_OTHERS = {"serve-ha": "docs/operations/follow.md", "spark sink": "docs/spark/replay.md"}
"""Command -> the page that tells of it, which has another name."""


def page() -> str:
    """Return the whole of docs/operations/cli.md."""
    parts = [INTRODUCTION.replace("{times}", TIMES), "## Commands\n"]
    links = (f"[{name}](#flintmq-{name.replace(' ', '-')})" for name in COMMANDS)
    parts += [textwrap.fill(" · ".join(links), WIDTH, break_on_hyphens=False) + "\n"]
    for name in COMMANDS:
        parts += [*_section(name), *([TEMPLATES] if name == "scan" else [])]
    parts += ["## Exit codes\n", "| code | error | meaning |", "|---|---|---|", *exit_code_rows(), ""]
    return "\n".join(parts)


def _section(name: str) -> Iterator[str]:
    """Yield the section of a command: purpose, exit codes, links, examples."""
    command = load(name)
    yield f"### flintmq {name}\n"
    purpose, *texts = paragraphs(command)
    sentences = [line for text in texts for line in re.split(r"(?<=\.) (?=[A-Z-])", text)]
    exits = [line for line in sentences if "exit code" in line.lower()]
    home = _home(name)
    links = [f"More: [{Path(home).stem}]({home.replace('docs/operations/', '').replace('docs/', '../')})."] * bool(home)
    yield textwrap.fill(" ".join([purpose, *exits, *links, *_json(name)]), WIDTH, break_on_hyphens=False) + "\n"
    lines = import_module(command.__module__).EPILOG.splitlines()
    examples = [line.strip() for line in lines if line.startswith("  flintmq ")]
    yield "\n".join(f"    {line}" for line in [synopsis(name, command), *examples]) + "\n"


def _home(name: str) -> str:
    """Return the page about a command; empty if there is none."""
    folders = ("docs/spark", *PLACES) if name.startswith("spark ") else PLACES
    homes = [f"{folder}/{name.removeprefix('spark ').partition(' ')[0]}.md" for folder in folders]
    return WITH_OTHERS.get(name) or next((path for path in homes if (ROOT / path).is_file()), "")


def _json(name: str) -> Iterator[str]:
    """Yield the link to the keys of a command's JSON, if the page of them has some."""
    headings = re.findall(r"^## (.*)$", (ROOT / "docs/operations/json.md").read_text(encoding="utf-8"), re.MULTILINE)
    names = (name, name.removeprefix("spark "), f"spark {name}")
    if of := [heading for known in names for heading in headings if f"`{known}`" in heading]:
        yield f"[JSON](json.md#{re.sub(r'[^a-z -]', '', of[0].lower()).replace(' ', '-')})."


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
