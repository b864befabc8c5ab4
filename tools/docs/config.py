"""Generates docs/operations/configuration.md and typed.pyi from the configuration keys.

`python -m tools.docs.config --write` writes both; `--check` and tests say whether they are current.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from flintmq.config.key_effects import LINES, SELF_DESCRIBED, SHOWN, Effect, KeyLine, text_of
from flintmq.config.keys import KEYS, StoreConfig

PAGE = Path("docs/operations/configuration.md")
TYPES = Path("src/flintmq/config/typed.pyi")
TYPES_HEAD = '''\
"""Types the settings of `MessageStore(path, **keys)`, so that editors complete them.

Made from StoreConfig by `python -m tools.docs.config --write`; do not edit. A stub without a
module: only type checkers read it.
"""

from typing import TypedDict

class Settings(TypedDict, total=False):
    """RocketMQ's keys in snake case. Defaults and meanings: docs/operations/configuration.md."""

'''

INTRODUCTION = """\
# RocketMQ's configuration keys

Made from the keys by `python -m tools.docs.config --write`; do not edit.

FlintMQ knows each key of RocketMQ's `MessageStoreConfig` (5.3.3, 5.4.0, 5.5.0) and the keys of `BrokerConfig` that
concern a store, by the names of `broker.conf`. Each key has one of four effects:

| | |
|---|---|
| acts | FlintMQ does what RocketMQ does |
| fixed | FlintMQ has one behaviour; with any value that asks for another, a store is not opened for writing |
| refused | other values ask for something that FlintMQ does not have; a store is not opened for writing |
| no effect | accepted and reported by `flintmq doctor --config FILE`, `flintmq inspect`, and once in the engine's log |

Readers refuse a store because of a key only where its files show another value, see the next section. Other keys of a
`broker.conf` (such as `namesrvAddr`) are ignored.
"""

SIZES = """\
## Sizes that the files show

A key says how large files are that will be made. Where there are files already, they decide, and the key need not be
given. If it is given (in a `broker.conf`, with `--set`, as an argument, as an option of Spark) and the files show
another value, every command, every reader and the engine refuse the store in one line, before a byte is changed.
RocketMQ refuses too, but for the index, which it then reads and writes in the wrong places. The sizes of `dev=True`,
and those that a master tells its follower, were given by nobody: files that are there win over them. What counts is the
most frequent length; a file of another length beside it is a finding of `flintmq verify`, and one of 0 bytes shows
nothing.
"""

TITLES = {
    Effect.ACTS: "Keys that act",
    Effect.FIXED: "Fixed",
    Effect.REFUSED: "Refused",
    Effect.NO_EFFECT: "Without effect",
}


def page() -> str:
    """Return the text of the page."""
    plain = StoreConfig()
    parts = [INTRODUCTION, SIZES + _table("Key", "Shown by", SHOWN) + _table("Not compared", "Why", SELF_DESCRIBED)]
    for effect, title in TITLES.items():
        lines = {key: line for key, line in LINES.items() if line.effect is effect}
        if effect is Effect.NO_EFFECT:
            head, rows = "| FlintMQ | Keys |\n|---|---|\n", _by_reason(lines)
        else:
            head = "| Key | Default | FlintMQ |\n|---|---|---|\n"
            rows = [_row(key, line, text_of(plain, key)) for key, line in lines.items()]
        parts.append(f"## {title}\n\n{len(lines)} keys.\n\n{head}{''.join(rows)}")
    assert set(LINES) == set(KEYS)
    return "\n".join(parts)


def _table(key: str, says: str, rows: Mapping[str, str]) -> str:
    """Return a table of two columns, with an empty line before it."""
    return f"\n| {key} | {says} |\n|---|---|\n" + "".join(f"| `{name}` | {text} |\n" for name, text in rows.items())


def _row(key: str, line: KeyLine, default: str) -> str:
    only = f"; only `{line.only}`" if line.only is not None else ""
    return f"| `{key}` | {f'`{default}`' if default else ''} | {line.says}{only} |\n"


def _by_reason(lines: dict[str, KeyLine]) -> list[str]:
    """Return one row for each reason, with all keys that have it."""
    keys: dict[str, list[str]] = {}
    for key, line in lines.items():
        keys.setdefault(line.says, []).append(f"`{key}`")
    return [f"| {says} | {', '.join(named)} |\n" for says, named in keys.items()]


def types() -> str:
    """Return the text of typed.pyi."""
    kinds = StoreConfig.__annotations__
    return TYPES_HEAD + "".join(f"    {name}: {kinds[name]}\n" for name in KEYS.values())


def main(words: list[str]) -> int:
    """Write both files below the current directory, or check them; return the exit code."""
    if words not in (["--write"], ["--check"]):
        sys.stderr.write("usage: python -m tools.docs.config --write | --check\n")
        return 2
    for made, text in ((PAGE, page()), (TYPES, types())):
        if words == ["--write"]:
            made.write_text(text, encoding="utf-8")
        elif not made.is_file() or made.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{made} does not match the keys; run: python -m tools.docs.config --write\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
