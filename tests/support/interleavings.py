"""Runs real code in threads of which one moves at a time, in every order that its points allow.

A thread stops at each `point`: before it takes a lock, reads or publishes a position, and around a write. The explorer
chooses who goes on. It runs the same scene again and again from its beginning, each time along another way, and ends a
way where it meets a state that it has seen. Two states are equal if the scene says so of what is shared, and if the
threads stand at the same instructions with the same numbers.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

LIMIT_S = 20.0


def taken_lock() -> threading.Lock:
    """Make a lock that whoever waits gets by a release: a semaphore of one, at a third of its cost."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Stopped(BaseException):
    """Ends a thread whose way is not followed further."""


class Actor:
    """One thread of a scene."""

    def __init__(self, run: Callable[[], None], schedule: Schedule) -> None:
        self.go, self.schedule = taken_lock(), schedule
        self.may: Callable[[], bool] = lambda: True
        self.error: BaseException | None = None
        self.over = self.ending = False
        self._run = run
        self.thread = threading.Thread(target=self._life, daemon=True)
        self.thread.start()

    def _life(self) -> None:
        self.go.acquire()
        try:
            if not self.ending:
                self._run()
        except Stopped:
            pass
        except BaseException as error:
            self.error = error
        self.over = True
        self.schedule.back.release()

    def step(self) -> None:
        """Let it run up to its next point."""
        self.go.release()
        assert self.schedule.back.acquire(timeout=LIMIT_S), "a thread waits for something that is no point"
        if self.error is not None:
            raise self.error


class Schedule:
    """The threads of one run of a scene."""

    def __init__(self) -> None:
        self.back = taken_lock()
        self.actors: list[Actor] = []

    def add(self, run: Callable[[], None]) -> None:
        """Add a thread; it has not begun."""
        self.actors.append(Actor(run, self))

    def point(self, may: Callable[[], bool] = lambda: True) -> None:
        """Stop the calling thread; it goes on when it is chosen, and only if `may()`. Elsewhere: nothing."""
        actor = next((a for a in self.actors if a.thread is threading.current_thread()), None)
        if actor is None or actor.ending:
            return
        actor.may = may
        self.back.release()
        actor.go.acquire()
        actor.may = lambda: True
        if actor.ending:
            raise Stopped

    def choices(self) -> list[int]:
        """The threads that may go on."""
        return [n for n, actor in enumerate(self.actors) if not actor.over and actor.may()]

    def places(self) -> Hashable:
        """Where each thread is, with the numbers it holds."""
        frames = sys._current_frames()
        return tuple(
            "over" if actor.over else tuple(_frame(frame) for frame in _stack(frames.get(actor.thread.ident or 0)))
            for actor in self.actors
        )

    def end(self) -> None:
        for actor in self.actors:
            actor.ending = True
            while not actor.over:
                actor.go.release()
                assert self.back.acquire(timeout=LIMIT_S)
            actor.thread.join()


class ModelLock:
    """A lock of the scene: who cannot have it is not chosen."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.taken = schedule, False

    def acquire(self) -> None:
        self.schedule.point(lambda: not self.taken)
        self.taken = True

    def release(self) -> None:
        self.taken = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *args: object) -> None:
        self.release()


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        if frame.f_code.co_filename != __file__ and not frame.f_code.co_filename.endswith("threading.py"):
            yield frame
        frame = frame.f_back


def _frame(frame: FrameType) -> Hashable:
    held = sorted((name, _value(value)) for name, value in frame.f_locals.items())
    return frame.f_code.co_name, frame.f_lasti, tuple((name, value) for name, value in held if value is not None)


def _value(value: Any) -> str | None:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple):
        return ",".join(str(_value(one)) for one in value)
    return f"at {value.start}" if hasattr(value, "start") and hasattr(value, "size") else None


class Scene:
    """One run: its threads, what they share, and what must be true."""

    schedule: Schedule

    def shared(self) -> Hashable:
        """What the threads share, as far as it decides what happens next."""
        raise NotImplementedError

    def check(self) -> None:
        """Assert what is always true."""

    def finish(self) -> None:
        """Assert what is true when all threads are through."""

    def close(self) -> None:
        """Free what it has."""


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Keep the calling thread, and those that it starts, on one processor: handing over then takes half the time."""
    if not hasattr(os, "sched_getaffinity"):  # macOS
        yield
        return
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[os.getpid() % len(allowed)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def running(make: Callable[[], Scene]) -> Iterator[Scene]:
    """A scene whose threads are ended afterwards."""
    scene = make()
    try:
        yield scene
    finally:
        scene.schedule.end()
        scene.close()


def explore(make: Callable[[], Scene], most: int = 200_000) -> tuple[int, int]:
    """Run a scene in every order; gives the number of states, and of those in which all threads are through.

    AssertionError names the way: a check failed, threads wait for each other, or go round without an end.
    """
    with on_one_processor():
        return _explored(make, most)


def _explored(make: Callable[[], Scene], most: int) -> tuple[int, int]:
    edges: dict[Hashable, dict[int, Hashable]] = {}
    final: set[Hashable] = set()
    ways: list[tuple[int, ...]] = [()]
    how: dict[Hashable, tuple[int, ...]] = {}
    while ways:
        way = ways.pop()
        with running(make) as scene:
            try:
                for number in way[:-1]:
                    scene.schedule.actors[number].step()
                _follow(scene, way, edges, final, ways, how)
            except AssertionError as error:
                raise AssertionError(f"{error} (by the way {way} of {len(how)} states)") from error
        assert len(edges) < most, "more states than expected"
    _all_end(edges, final, how)
    return len(edges), len(final)


def _follow(scene: Scene, way: tuple[int, ...], edges: Any, final: Any, ways: Any, how: Any) -> None:
    """Go the last step of a way, and on along first choices until a state that is known."""
    state = (scene.schedule.places(), scene.shared())
    done = way[:-1]
    step = way[-1] if way else None
    while True:
        if step is not None:
            scene.schedule.actors[step].step()
            scene.check()
            reached = (scene.schedule.places(), scene.shared())
            edges[state][step] = reached
            state, done = reached, (*done, step)
        if state in edges:
            return
        choices = scene.schedule.choices()
        edges[state], how[state] = {}, done
        if not choices:
            assert all(actor.over for actor in scene.schedule.actors), f"threads wait for each other by the way {done}"
            scene.finish()
            final.add(state)
            return
        ways.extend((*done, other) for other in choices[1:])
        step = choices[0]


def _all_end(edges: dict[Hashable, dict[int, Hashable]], final: set[Hashable], how: Any) -> None:
    """Assert that from every state some order leads to the end: nothing goes round for ever."""
    into: dict[Hashable, list[Hashable]] = {}
    for state, steps in edges.items():
        for reached in steps.values():
            into.setdefault(reached, []).append(state)
    ends, todo = set(final), list(final)
    while todo:
        for before in into.get(todo.pop(), ()):
            if before not in ends:
                ends.add(before)
                todo.append(before)
    stuck = [how[state] for state in edges if state not in ends]
    assert not stuck, f"no end can be reached by the way {min(stuck, key=len)}"
