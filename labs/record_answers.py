"""Records what people and programs rely on: options, JSON keys and Python names, into answers.json.

`python -m labs.record_answers > tests/compat/answers.json`, in a checkout of the commit whose answers are to
last: 95f33ac2, before the source tree was made smaller. What comes later is added by hand, if it is to last.
"""

import contextlib
import importlib
import inspect
import io
import json
import re
import runpy
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MORE = [  # what pages import by an inner path, besides the reference
    "flintmq.store.commitlog.report.Report",
    "flintmq.spark.source.FlintMQSource",
    "flintmq.ha",
    "flintmq.testing",
]
INNER = {"after_put", "close_ways", "flusher", "loop_puts", "open_ways", "quick", "waits"}
"""Between the compiled and the interpreted half of MessageStore: nobody's business."""
OUTPUTS = {  # name -> words of a command that writes nothing, or only below OUT
    "scan": "scan STORES/basic --limit 1",
    "get": "get STORES/basic Orders 0 0",
    "inspect timer": "inspect STORES/timer",
    "inspect groups": "inspect STORES/config",
    "verify": "verify STORES/crash",
    "explain": "explain STORES/basic/checkpoint",
    "retention": "retention explain STORES/config --used 99",
    "rebuild": "rebuild STORES/poison --into OUT/rebuilt",
    "copy": "copy STORES/poison --into OUT/copied",
    "export": "export STORES/basic --out OUT/lake",
    "diff": "diff STORES/basic STORES/rolled",
    "doctor": "doctor",
}


def options() -> dict[str, dict[str, bool]]:
    """Command -> its options, each with whether it takes a value. `` is the root."""
    from flintmq.cli.declare import parameters
    from flintmq.cli.names import COMMANDS, GROUPS
    from flintmq.cli.parser import QUIET, VERSION, load

    found: dict[str, dict[str, bool]] = {name: {} for name in GROUPS} | {"": dict.fromkeys((*QUIET, *VERSION), False)}
    for name in COMMANDS:
        given = parameters(load(name))
        found[name] = {word: one.kind is not bool for one in given for word in (*one.declared.names, *one.declared.old)}
    return found


def paths(value: object, where: str = "") -> Iterator[str]:
    """The paths of all keys of a JSON value; [] stands for the members of a list. Keys that are data count as `*`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            place = f"{where}.{key if re.fullmatch('[a-z_0-9]+', key) else '*'}"
            yield place
            yield from paths(inner, place)
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, f"{where}[]")


def printed(words: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, run in this process."""
    from flintmq.cli import app

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = app.run(words)
        out.flush(), err.flush()
    return code, *(stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]


def keys(folder: Path) -> dict[str, list[str]]:
    """Name of OUTPUTS -> paths of the keys that `--json` prints, by a store that RocketMQ wrote."""
    from tests.compat.stores import Golden

    for name in set(re.findall(r"STORES/(\w+)", " ".join(OUTPUTS.values()))):
        Golden(name, folder)
    found = {}
    for name, words in OUTPUTS.items():
        _, out, _ = printed([*words.replace("STORES", str(folder)).replace("OUT", str(folder)).split(), "--json"])
        found[name] = sorted({path for line in out.splitlines() for path in paths(json.loads(line))})
    return found


def page_words() -> list[str]:
    """The names in the tables of docs/operations/json.md; other tests hold that page to what commands print."""
    text = (ROOT / "docs" / "operations" / "json.md").read_text(encoding="utf-8")
    return sorted({word for row in re.findall(r"^\|.*$", text, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)})


def parameters(value: object) -> list[str]:
    """The names of a callable's parameters; none where Python does not say."""
    try:
        return [name for name in inspect.signature(value).parameters if name != "self"]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []


def resolved(path: str) -> Any:
    """The module or the object of a dotted path; None for a field of a class that has no value there.

    Raises:
        AttributeError, ModuleNotFoundError: there is none.
    """
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(path)
    home, _, name = path.rpartition(".")
    if not home:
        raise ModuleNotFoundError(path)
    value = resolved(home)
    if inspect.isclass(value) and name not in dir(value) and name in fields(value):
        return None
    return getattr(value, name)


def fields(cls: type) -> set[str]:
    """The names that a class and its bases annotate."""
    return {name for base in cls.__mro__ for name in inspect.get_annotations(base)}


def public(path: str) -> Iterator[str]:
    """The public names in what a path names, one level into a module and into a class."""
    value = resolved(path)
    if inspect.ismodule(value):
        listed = getattr(value, "__all__", None) or [
            name for name, one in vars(value).items() if getattr(one, "__module__", "") == value.__name__
        ]
        for name in listed:
            if not name.startswith("_"):
                yield from public(f"{path}.{name}")
    yield path
    if inspect.isclass(value):
        ours = [base for base in value.__mro__ if base.__module__.startswith("flintmq")]
        names = fields(value) | {name for base in ours for name in vars(base)}
        yield from (f"{path}.{name}" for name in names - INNER if not name.startswith("_"))


def names() -> dict[str, list[str]]:
    """Dotted path of a public name -> the parameters that it takes."""
    reference = runpy.run_path(str(ROOT / ".ci" / "site_pages.py"))["REFERENCE"]
    begin = ["flintmq", *MORE, *(path for _, listed in reference.values() for path in listed)]
    return {path: parameters(resolved(path)) for path in sorted({name for path in begin for name in public(path)})}


def main() -> None:
    """Print the record."""
    with tempfile.TemporaryDirectory() as folder:
        record = {"options": options(), "keys": keys(Path(folder)), "page": page_words(), "names": names()}
    json.dump(record, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
