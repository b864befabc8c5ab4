"""Options that several commands share."""

from __future__ import annotations

import pytest

from flintmq.cli.options import examples, store_config, time_range
from flintmq.errors import ConfigError, UsageError


def test_settings_use_rocketmqs_names() -> None:
    config = store_config(["mappedFileSizeCommitLog=65536", "enableLmq=true"])
    assert config.mapped_file_size_commit_log == 65536 and config.enable_lmq
    assert config.given == {"mappedFileSizeCommitLog", "enableLmq"}
    assert store_config(None).given == frozenset()


@pytest.mark.parametrize(
    "word", ["", "=1", "maxIndexNum", "maxIndexNum=", "maxIndexNum=x", "maxIndexNum=-1", "noSuchKey=1"]
)
def test_settings_that_cannot_be_are_refused(word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        store_config([word])
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_a_typing_mistake_gets_the_right_name() -> None:
    with pytest.raises(ConfigError, match="did you mean maxIndexNum"):
        store_config(["maxIndexNumm=5"])


def test_time_ranges() -> None:
    assert time_range(None, None) == (None, None)
    assert time_range("1000", "2000") == (1000, 2000)
    first, end = time_range("-1h", "-30m")
    assert first is not None and end is not None and end - first == 1_800_000


@pytest.mark.parametrize(("since", "until"), [("2000", "1000"), ("1000", "1000"), ("-15m", "-1h")])
def test_an_empty_range_is_a_mistake(since: str, until: str) -> None:
    with pytest.raises(UsageError, match="--since .* is not before --until"):
        time_range(since, until)


@pytest.mark.parametrize("option", ["since", "until"])
def test_an_error_names_its_option(option: str) -> None:
    with pytest.raises(UsageError, match=f"^--{option}: 'soon' is no time"):
        time_range(**{"since": None, "until": None, option: "soon"})


def test_examples_keep_their_lines() -> None:
    assert examples("a", "b") == "Examples:\n\n\b\n  a\n  b"
