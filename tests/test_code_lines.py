"""The tool that says how large each room is."""

from tools.code_lines import count, rooms

SOURCE = '''"""Docstring
of two lines."""

import os
from a import (
    b,
    c,
)

# A comment of its own.
TEXT = """no
# docstring
at all"""


def f() -> int:
    """One."""
    return 1  # beside code


class G:
    "Of one line."
    x = f(
        1,
    )
'''


def test_each_line_is_counted_once_by_what_stands_on_it():
    assert count(SOURCE) == {"docstrings": 4, "imports": 5, "comments": 1, "code": 9}


def test_a_room_is_a_folder_of_the_package_and_all_tests_are_one():
    one = "x = 1\n"
    sums = rooms({"src/flintmq/store/read/get.py": one, "src/flintmq/store/view.py": one, "src/flintmq/message.py": one,
                  "tests/store/test_view.py": one, "tests/test_message.py": one, "labs/sim/crash.py": one})  # fmt: skip
    assert {name: lines["code"] for name, lines in sums.items()} == {"store": 2, "(top)": 1, "tests": 2, "labs": 1}
