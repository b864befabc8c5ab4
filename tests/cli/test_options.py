"""Options that several commands share."""

from flintmq.cli.options import examples


def test_examples_keep_their_lines() -> None:
    assert examples("a", "b") == "Examples:\n\n  a\n  b"
