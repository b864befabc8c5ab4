"""No block of a `with` that takes a lock holds a loop at whose jump back a signal handler skips `__exit__`.

storage/threads/mutex.py tells why. The rule here reads sources, so it finds such loops on every Python.
"""

import ast
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.memory.allocation import AllocateRequest, AllocationService
from tests.storage.threads.test_mutex import Alarm, is_free, raise_alarm
from tests.support.threads import alarms

ENGINE = Path(flintmq.__file__).parent
LOCK_FILES = ("locked(", "exclusive(", "AtOnce(")  # functions whose result is a lock; all others make what they return
NO_LOCKS = ("cython.nogil",)
INLINED = ("any", "all", "tuple", "list", "set")  # Python 3.14 and 3.15 put loops over generators for these in place
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


def locks_around_loops(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """What each `with` enters that is a lock and whose block has such a loop, and the loop's line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            for entered in (ast.unparse(item.context_expr) for item in node.items):
                yield from ((entered, loop.lineno) for loop in loops_of(node.body) if takes_a_lock(entered))


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


def test_a_handler_that_raises_in_a_loop_leaves_the_lock_free():
    """With the loop in the `with`, 9 of 10 of these interrupts left the lock taken on Python 3.13 and 3.14."""
    service = AllocationService(lambda start, window: pytest.fail(), 1, REAL)
    service._table = {start: AllocateRequest(start, None) for start in range(200)}
    with alarms(raise_alarm):
        for turn in range(200):
            with pytest.raises(Alarm):
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + turn % 50 * 0.000003)
                while True:
                    service.used(0)
            assert is_free(service._lock), turn


def test_no_lock_is_held_around_a_loop_that_ends_in_a_condition():
    found = [
        f"{path.relative_to(ENGINE)}:{line}: with {entered}"
        for path in sorted(ENGINE.rglob("*.py"))
        for entered, line in locks_around_loops(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == [], "move the loop into a function that the block calls: storage/threads/mutex.py"


def test_each_such_loop_is_found_and_no_other():
    for text, is_wrong in ((WRONG, True), (RIGHT, False)):
        for function in ast.parse(text).body:
            found = list(locks_around_loops(ast.Module([function], [])))
            assert bool(found) == is_wrong, ast.unparse(function)
