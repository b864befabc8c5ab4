"""Every public function refuses by name a switch that is neither True nor False, and seconds that are no time.

The text "no" would be a yes. What is asked are all names of labs/record_answers.py, by their signatures: a new door is
in the list as soon as it is public.
"""

import inspect
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Unpack, get_args, get_origin, get_type_hints
from unittest.mock import MagicMock

import numpy as np
import pytest

from flintmq.config.keys import KEYS, StoreConfig, key_name
from flintmq.errors import ConfigError, UsageError
from flintmq.store.message_store import MessageStore
from labs.record_answers import names, resolved

INNER = {  # no doors: who calls them
    "flintmq.Consumer": "store.consumer and view.consumer",
    "flintmq.PutMessageStatus.outcome": "results of puts, with what they know",
    "flintmq.arrow.schema.of_many": "readers, with what they know",
    "flintmq.arrow.schema.member_columns": "readers, with what they know",
    "flintmq.spark.FlintMQSource.writer": "Spark",
    "flintmq.spark.FlintMQSource.streamWriter": "Spark",
    "flintmq.spark.source.FlintMQSource.writer": "Spark",
    "flintmq.spark.source.FlintMQSource.streamWriter": "Spark",
    "flintmq.testing.strategies.hosts": "hypothesis, when it draws",
}
ALSO = ["flintmq.ha.fleet.Fleet"]  # several followers, behind the command


def parameters(door: Callable[..., object]) -> Iterator[tuple[str, Any, Any]]:
    """Name, type and default of a door's parameters; of keywords that a TypedDict declares, each."""
    hints = _hints(door)
    for name, one in inspect.signature(door).parameters.items():
        kind = hints.get(name, one.annotation)
        if get_origin(kind) is Unpack:
            for keyword, hint in get_type_hints(get_args(kind)[0]).items():
                yield keyword, hint, inspect.Parameter.empty
        else:
            yield name, kind, one.default


def _hints(door: Any) -> dict[str, Any]:
    function = inspect.unwrap(door.__init__ if inspect.isclass(door) else door)
    texts = {name: one.annotation for name, one in inspect.signature(function).parameters.items()}
    known = vars(__import__("typing")) | getattr(function, "__globals__", {})
    return {name: _evaluated(text, known) for name, text in texts.items()}


def _evaluated(text: Any, known: dict[str, Any]) -> Any:
    try:
        return eval(text, known) if isinstance(text, str) else text
    except NameError:  # imported for types alone: neither a switch nor a time
        return text


def doors() -> dict[str, list[tuple[str, Any, Any]]]:
    """Path -> parameters of what can be called; an object with two paths by the first."""
    found: dict[Any, str] = {}
    for path in [*names(), *ALSO]:
        value = resolved(path)
        if path not in INNER and callable(value) and hasattr(value, "__module__"):
            found.setdefault(value, path)
    listed = {}
    for value, path in found.items():
        try:
            listed[path] = list(parameters(value))
        except ValueError:  # Python does not say
            continue
    return listed


DOORS = doors()
SWITCHES = [
    (path, name, kind)
    for path, given in DOORS.items()
    for name, kind, default in given
    if kind in (bool, bool | None) or isinstance(default, bool)
]
SECONDS = [(path, name) for path, given in DOORS.items() for name, kind, _ in given if kind in (float, float | None)]


def call(path: str, name: str, value: object) -> None:
    """Call a door with this argument, and something for each that must be given."""
    door = resolved(path)
    words: dict[str, Any] = {}
    for one in inspect.signature(door).parameters.values():
        if one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL) and one.name != "self":
            words[one.name] = "T" if one.name == "topic" else MagicMock()
    first = [MagicMock()] if "self" in inspect.signature(door).parameters else []
    result = door(*first, **words | {name: value})
    if isinstance(result, Iterator):
        next(result)


def test_what_is_asked():
    assert {"flintmq.Message", "flintmq.MessageStore", "flintmq.scan_arrow", "flintmq.export"} < {
        path for path, *_ in SWITCHES
    }
    assert len(SWITCHES) > 40 and len(SECONDS) >= 6, "the signatures were understood"


@pytest.mark.parametrize("wrong", ["no", 0.5, None, np.False_], ids=repr)
@pytest.mark.parametrize(("path", "name", "kind"), SWITCHES, ids=lambda one: one if isinstance(one, str) else "")
def test_a_switch_is_true_or_false(path: str, name: str, kind: Any, wrong: Any):
    if wrong is None and kind == bool | None:
        return
    word = "numpy.bool" if wrong is np.False_ else type(wrong).__name__
    with pytest.raises(TypeError, match=rf"\b{name}\b.* is of type {word}; give True or False"):
        call(path, name, wrong)


@pytest.mark.parametrize("wrong", ["no", 0.5, None], ids=repr)
def test_a_switch_of_the_configuration_is_true_or_false(wrong: Any):
    switches = [name for name in KEYS.values() if isinstance(getattr(StoreConfig, name), bool)]
    assert len(switches) > 70
    for name in switches:
        with pytest.raises(TypeError, match=f"^{name} is {wrong!r}, of type {type(wrong).__name__}; give True or"):
            StoreConfig(**{name: wrong})
        with pytest.raises(ConfigError, match=f"{key_name(name)}: .*{wrong}.* is neither true nor false"):
            MessageStore("never made", **{name: wrong})


@pytest.mark.parametrize("wrong", [math.nan, -1, math.inf, "5", Decimal("nan")], ids=repr)
@pytest.mark.parametrize(("path", "name"), SECONDS)
def test_seconds_are_a_time(path: str, name: str, wrong: Any):
    with pytest.raises(UsageError, match=f"^{name}={wrong}; give 0 or more seconds"):
        call(path, name, wrong)
