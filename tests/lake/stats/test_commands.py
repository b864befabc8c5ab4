"""Commands of a page are lines that a shell reads as they are meant."""

import shutil
import subprocess

import pytest

from flintmq.lake.stats.commands import LINE_CHARS, Commands, quoted

HOSTILE = [
    "plain",
    "a b",
    "$(rm -rf ~)",
    "`id`",
    "it's",
    '"',
    "a\nb",
    "\x1b[2J",
    "\u202etxt",
    "\u5e93\u5b58",
    "-x",
    "\\",
    "'\n'",
    "%s\x01'",
]


@pytest.mark.parametrize("word", HOSTILE)
def test_bash_reads_the_word(word: str) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    assert quoted(word).isprintable()
    done = subprocess.run(["bash", "-c", f"printf '%s' {quoted(word)}"], capture_output=True, check=True, timeout=20)
    assert done.stdout.decode() == word


def test_what_was_asked_for_is_repeated() -> None:
    shown = Commands(["a", "b c"], ["T", "U"], 1_700_000_000_000, None)
    assert shown.scan(until=-(10**18)) == (
        "flintmq scan a 'b c' --topic T --topic U --since 2023-11-14T22:13:20.000Z --until -1000000000000000000"
    )
    assert shown.scan("V", queue=3) == "flintmq scan a 'b c' --topic V --since 2023-11-14T22:13:20.000Z --queue 3"
    assert shown.inspect() == "flintmq inspect a 'b c'"


def test_a_line_that_nobody_would_copy_is_none() -> None:
    assert Commands(["s"]).scan("x" * LINE_CHARS) == ""
