"""Nothing is lost: each option, JSON key and Python name of answers.json (labs/record_answers.py) still answers.

An option answers if the command line takes it, by that name or as a hidden alias; a name, if it is there and takes the
parameters that it took. What is given up on purpose leaves the record, in the commit that says so in CHANGELOG.md.
"""

import inspect
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from labs.record_answers import fields, keys, page_words, printed, resolved

RECORD = json.loads(Path(__file__).with_name("answers.json").read_text(encoding="utf-8"))
UNKNOWN, LAST = "--zzqr", "--zzqx"  # no options: the last one keeps a command from running


def said(command: str, *options: tuple[str, bool]) -> str:
    """What a command line with these options says; each has a value or none."""
    words = [word for option, takes_value in options for word in ([option, "1"] if takes_value else [option])]
    code, out, err = printed([*command.split(), *words, LAST])
    if not code:
        return f"ended: {out}"  # an option that ends the command (--version) is known
    return re.sub(r"; did you mean '[^']*'", "", err)


def refused(command: str, options: dict[str, bool]) -> list[str]:
    """Those of a command's options that it knows as little as one that there is not."""
    together = [(option, value) for option, value in options.items() if option != "--json"]  # which changes the form
    if said(command, *together) == said(command):
        options = {option: value for option, value in options.items() if option == "--json"}
    unknown = {takes_value: said(command, (UNKNOWN, takes_value)) for takes_value in (False, True)}
    assert all(UNKNOWN in refusal for refusal in unknown.values()), "it is named"
    return [
        option
        for option, value in options.items()
        if re.sub(rf"(?<![\w-]){option}(?![\w-])", UNKNOWN, said(command, (option, value))) == unknown[value]
    ]


@pytest.mark.parametrize("command", sorted(RECORD["options"]))
def test_each_option_is_taken(command: str):
    assert refused(command, RECORD["options"][command]) == []


def test_each_command_has_options():
    assert len(RECORD["options"]) == 34 and sum(map(len, RECORD["options"].values())) == 239


def test_each_json_key_is_printed(tmp_path: Path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    found = keys(tmp_path)
    assert {name: sorted(set(paths) - set(found[name])) for name, paths in RECORD["keys"].items()} == {
        name: [] for name in RECORD["keys"]
    }


def test_each_word_of_the_page_of_json_is_there():
    assert set(RECORD["page"]) - set(page_words()) == set()


def lost(path: str, parameters: list[str]) -> str:
    """How a public name fails to answer; empty if it does."""
    try:
        value = resolved(path)
    except (AttributeError, ModuleNotFoundError):
        home, _, name = path.rpartition(".")
        if name not in taken(resolved(home)):  # an attribute that only its instances have, by its constructor
            return f"{path} is gone"
        return ""
    now = taken(value)
    gone = [name for name in parameters if now and name not in now]
    return f"{path} takes no {', '.join(gone)}" if gone and "**" not in now else ""


def taken(value: Any) -> set[str]:
    """The parameters of a callable, ** among them where it takes any; none where Python does not say."""
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {one.name for one in found} | {"**" for one in found if one.kind is one.VAR_KEYWORD}


def test_each_python_name_answers():
    for needed in ("pyarrow", "pyspark", "hypothesis", "polars"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # an old path says so
        assert list(filter(None, (lost(path, names) for path, names in RECORD["names"].items()))) == []


class Kept:
    """A class to lose things of."""

    field: int

    def __init__(self, given: int) -> None:
        self.given = given

    def call(self, a: int, b: int) -> int:
        return a + b


def test_what_is_lost_is_seen():
    here = f"{__name__}.Kept"
    assert fields(Kept) == {"field"}
    assert [lost(f"{here}.{name}", []) for name in ("field", "given", "call")] == ["", "", ""]
    assert lost(f"{here}.gone", []) == f"{here}.gone is gone"
    assert lost(f"{here}.call", ["a", "c"]) == f"{here}.call takes no c"
    assert refused("scan", {"--topic": True, "--gone": True, "-q": False, "--lost": False}) == ["--gone", "--lost"]
    assert refused("", {"-x": False, "--version": False}) == ["-x"]
