"""No block of a `with` that takes a lock holds a loop at whose jump back a signal handler skips `__exit__`.

storage/threads/mutex.py tells why. The rule here reads sources, so it finds such loops on every Python. The code that
Python makes of the sources must have no hole that the rule does not name; up to Python 3.11 it has none.
"""

import ast
import dis
import itertools
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest

import flintmq
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.memory.allocation import AllocateRequest, AllocationService
from tests.storage.threads.test_mutex import Alarm, is_free, raise_alarm

ENGINE = Path(flintmq.__file__).parent
LOCK_FILES = ("locked(", "exclusive(")  # functions whose result is a lock; all others make what they return
NO_LOCKS = ("cython.nogil",)
INLINED = ("any", "all", "tuple", "list", "set")  # Python 3.14 and 3.15 put loops over generators for these in place
HAS_HOLES = sys.version_info >= (3, 12)  # harmless in 3.12, which looks for signals after the jump
OWN_CODE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

WRONG = """
def used(lock, table, below):  # AllocationService.used as it was
    with lock:
        for start in [start for start in table if start < below]:
            del table[start]

def ends_in_if(lock, table, below):
    with lock:
        for start in list(table):
            if start < below:
                del table[start]

def ends_in_elif(lock, table, below):
    with lock:
        for start in list(table):
            if not start:
                pass
            elif start < below:
                del table[start]

def ends_in_try(lock, table, below):
    with lock:
        for start in list(table):
            try:
                if start < below:
                    del table[start]
            except KeyError:
                pass

def asserts(lock, table, below):
    with lock:
        for start in table:
            assert start < below

def goes_on_early(lock, table, below):
    with lock:
        for start in list(table):
            if start > below or start < 0:
                continue
            del table[start]

def while_there_are(lock, table, below):
    with lock:
        while table:
            table.popitem()

def until_none_is_left(lock, table, below):
    with lock:
        while True:
            table.popitem()
            if not table:
                break

def looks(lock, table, below):
    with lock:
        return any(start < below for start in table)

def wrong_in_a_file_lock(lock, table, below):
    with locked(below) as target, open(target):
        while table:
            table.popitem()
"""
RIGHT = """
def does_the_same_for_each(lock, table, below):
    with lock:
        for start in list(table):
            if start < below:
                table.pop(start)
            below += start

def for_each_of_each(lock, table, below):
    with lock:
        for start in list(table):
            for _ in range(below):
                table.pop(start, None)

def takes_all(lock, table, below):
    with lock:
        return [start + below for start in table]

def calls(lock, table, below):
    with lock:
        return sorted(table, key=lambda start: [one for one in table if one < start])

def next_of(lock, table, below):
    with lock:
        return next((start for start in table if start < below), None)
"""


class Block(NamedTuple):
    """The place of a `with`, by which code and syntax of one source are compared."""

    line: int
    column: int


def blocks_with_loops(tree: ast.Module) -> Iterator[tuple[Block, str, int]]:
    """Each `with` whose block has such a loop: its place, what it enters, the loop's line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            for item in node.items:
                entered = item.context_expr
                place = entered if sys.version_info >= (3, 13) else node  # as the code's steps have it
                for loop in loops_of(node.body):
                    yield Block(place.lineno, place.col_offset), ast.unparse(entered), loop.lineno


def loops_of(body: list[ast.stmt]) -> Iterator[Any]:
    """The loops of statements, without those of functions inside, whose condition jumps back."""
    for statement in body:
        for node in own_nodes(statement):
            if (
                isinstance(node, (ast.While, ast.AsyncFor))
                or (isinstance(node, ast.For) and (ends_in_condition(node.body) or goes_on_early(node.body)))
                or (isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp)) and has_filter(node))
                or (isinstance(node, ast.Call) and is_inlined(node))
            ):
                yield node


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it that belong to the same code."""
    if not isinstance(node, OWN_CODE):
        yield node
        for inner in ast.iter_child_nodes(node):
            yield from own_nodes(inner)


def ends_in_condition(body: list[ast.stmt]) -> bool:
    """Whether the last statement may jump to what follows it."""
    last = body[-1]
    if isinstance(last, ast.Try):
        return any(ends_in_condition(part) for part in (last.body, last.orelse, last.finalbody) if part)
    return isinstance(last, (ast.If, ast.Match, ast.Assert))


def goes_on_early(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Continue) for statement in body for node in own_nodes(statement))


def has_filter(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> bool:
    return any(generator.ifs for generator in node.generators)


def is_inlined(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Name) or call.func.id not in INLINED or len(call.args) != 1:
        return False
    given = call.args[0]
    return isinstance(given, ast.GeneratorExp) and (call.func.id in ("any", "all") or has_filter(given))


def takes_a_lock(entered: str) -> bool:
    """Whether what a `with` enters is a lock: it was made before, or by a function that locks a file."""
    return entered.startswith(LOCK_FILES) or ("(" not in entered and entered not in NO_LOCKS)


def holes(code: CodeType) -> Iterator[tuple[Block, int]]:
    """Each `with` that a jump back leaves though it lies inside: its place, the line of the jump."""
    steps = list(dis.get_instructions(code))
    at = {step.offset: number for number, step in enumerate(steps)}
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]

    def left(offset: int, seen: frozenset[int] = frozenset()) -> set[int]:
        """The numbers of the steps that leave the `with` blocks around an offset by `__exit__`."""
        found = set()
        for entry in table:
            if entry.start <= offset < entry.end and entry.target not in seen:
                number = at[entry.target]
                if [step.opname for step in steps[number : number + 2]] == ["PUSH_EXC_INFO", "WITH_EXCEPT_START"]:
                    found.add(number + 1)
                found |= left(entry.target, seen | {entry.target})
        return found

    for before, step in itertools.pairwise(steps):
        of_yield_from = step.opname == "JUMP_BACKWARD_NO_INTERRUPT" or before.opname == "CLEANUP_THROW"
        if "JUMP_BACKWARD" in step.opname and not of_yield_from:
            for number in left(step.argval) - left(step.offset):
                place = steps[number].positions
                assert place is not None and place.lineno is not None and place.col_offset is not None
                yield Block(place.lineno, place.col_offset), step.positions.lineno or 0  # type: ignore[union-attr]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from holes(inner)


def test_a_handler_that_raises_in_a_loop_leaves_the_lock_free():
    """With the loop in the `with`, 9 of 10 of these interrupts left the lock taken on Python 3.13 and 3.14."""
    service = AllocationService(lambda start, window: pytest.fail(), 1, REAL)
    service._table = {start: AllocateRequest(start, None) for start in range(200)}
    before = signal.signal(signal.SIGALRM, raise_alarm)
    try:
        for turn in range(200):
            with pytest.raises(Alarm):
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + turn % 50 * 0.000003)
                while True:
                    service.used(0)
            assert is_free(service._lock), turn
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def sources() -> list[Path]:
    return sorted(ENGINE.rglob("*.py"))


def test_no_lock_is_held_around_a_loop_that_ends_in_a_condition():
    found = [
        f"{path.relative_to(ENGINE)}:{line}: with {entered}"
        for path in sources()
        for _, entered, line in blocks_with_loops(ast.parse(path.read_text(encoding="utf-8")))
        if takes_a_lock(entered)
    ]
    assert found == [], "move the loop into a function that the block calls: storage/threads/mutex.py"


def test_each_such_loop_is_found_and_no_other():
    for text, is_wrong in ((WRONG, True), (RIGHT, False)):
        for function in ast.parse(text).body:
            found = {entered for _, entered, _ in blocks_with_loops(ast.Module([function], []))}
            assert any(takes_a_lock(entered) for entered in found) == is_wrong, ast.unparse(function)


def test_the_code_has_no_hole_that_the_rule_does_not_name():
    unknown, known = [], 0
    for path in sources():
        text = path.read_text(encoding="utf-8")
        named = {block for block, _, _ in blocks_with_loops(ast.parse(text))}
        for block, line in holes(compile(text, str(path), "exec")):
            known += block in named
            if block not in named:
                unknown.append(f"{path.relative_to(ENGINE)}:{line} in the with of line {block.line}")
    assert unknown == []
    if HAS_HOLES:  # around what is no lock, a file that is read for example, they are harmless
        assert known > 10


def test_the_code_of_the_examples_agrees():
    assert WRONG.splitlines()[2] == "    with lock:"
    assert (3 in {block.line for block, _ in holes(compile(WRONG, "", "exec"))}) == HAS_HOLES
    assert list(holes(compile(RIGHT, "", "exec"))) == []
