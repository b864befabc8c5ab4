"""Generates docs/operations/configuration.md and typed.pyi from the configuration keys.

`python -m tools.docs.config --write` writes both; `--check` and tests say whether they are current.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from flintmq.config.key_effects import LINES, SELF_DESCRIBED, SHOWN, Effect, text_of
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
concern a store, by the names of `broker.conf`; others (such as `namesrvAddr`) are ignored. A key has one of four
effects; its default, if it has one, is in brackets:

| | |
|---|---|
| acts | FlintMQ does what RocketMQ does |
| fixed | FlintMQ has one behaviour; a value that asks for another is refused for writing |
| refused | FlintMQ does not have what other values ask for; they are refused for writing |
| no effect | accepted and reported by `flintmq doctor --config FILE`, `flintmq inspect`, and once in the engine's log |
"""

SIZES = """\
## Sizes that the files show

A key says how large new files are. Files that are there decide for themselves: where a given key (in a `broker.conf`,
with `--set`, as an argument, as an option of Spark) contradicts them, every command, every reader and the engine refuse
the store in one line, before a byte is changed. RocketMQ refuses too, but for the index, which it then reads and writes
in the wrong places. Files win over the sizes of `dev=True`, and those that a master tells its follower. The most
frequent length counts; `flintmq verify` reports a file of another one.
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
        values = {key: text_of(plain, key) for key in lines if effect is not Effect.NO_EFFECT}
        says = {
            key: line.says + (f"; only `{line.only}`" if line.only is not None else "") for key, line in lines.items()
        }
        parts.append(f"## {title}\n\n{len(lines)} keys.\n{_table('Keys', 'FlintMQ', says, values)}")
    assert set(LINES) == set(KEYS)
    return "\n".join(parts)


def _table(key: str, says: str, rows: Mapping[str, str], values: Mapping[str, str] = {}) -> str:
    """Return a table: a row for each text, with all keys that have it."""
    keys: dict[str, list[str]] = {}
    for name, text in rows.items():
        keys.setdefault(text, []).append(f"`{name}`" + (f" ({values[name]})" if values.get(name) else ""))
    return f"\n| {key} | {says} |\n|---|---|\n" + "".join(
        f"| {', '.join(of)} | {text} |\n" for text, of in keys.items()
    )


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
