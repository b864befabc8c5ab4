"""The mutants of one module, each in a forked process that runs the tests which reach it.

    python -m labs.mutants.forked format/record REPORT TEST_FILE...        (what
    labs/mutants/scores.py starts)

mutmut makes the mutants. Its own runner starts pytest anew for each; here tests are imported, collected and run once,
golden stores are unpacked once, and a mutant's process goes on from there: the tests that call the function it changed,
the quickest first, until one fails. A mutant is dead when a test fails, when its process ends by itself, or when it
takes far longer than the same tests took without it. What it may take counts only while this process runs too: on a
machine that stops both for a while, nothing ends too early.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace

import pytest
from mutmut.mutation.file_mutation import MutatedFile, mutate_file_contents
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 6 << 30  # bytes that a mutant may ask for: some loop and append for ever
TICK = 0.005  # seconds between two looks at a mutant's process
PR_SET_CHILD_SUBREAPER = 36
BASELINE_FAILED = 17  # exit code: a test fails without a mutant


def source_of(module: str) -> Path:
    """format/record -> its file."""
    return ROOT / "src" / "flintmq" / f"{module}.py"


def name_of(module: str) -> str:
    """format/record -> flintmq.format.record."""
    return "flintmq." + module.replace("/", ".")


def mutated(module: str) -> MutatedFile:
    """The module with all its mutants inside, one of which can be chosen while it runs."""
    return mutate_file_contents(f"src/flintmq/{module}.py", source_of(module).read_text(encoding="utf-8"))


class Loader(importlib.machinery.SourceFileLoader):
    """Loads the mutated text in the module's place."""

    text = ""

    def get_code(self, fullname: str) -> CodeType:
        """Compile it."""
        return compile(self.text, self.path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    """Finds one module, before any other finder does."""

    def __init__(self, module: str, text: str) -> None:
        self.name, self.path = name_of(module), str(source_of(module))
        self.text = text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Only of that one."""
        if fullname != self.name:
            return None
        loader = Loader(fullname, self.path)
        loader.text = self.text
        return importlib.util.spec_from_file_location(fullname, self.path, loader=loader)


class EndAtFailure:
    """In a mutant's process: the first failure ends it."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test is over."""
        if report.failed:
            os._exit(1)


class Forks:
    """Runs all tests once, then those that matter for each mutant.

    Attributes:
        outcome: mutant -> "alive", "no test", or how it died.
    """

    def __init__(self, module: str, file: MutatedFile, report: Path) -> None:
        self.module, self.file, self.report = module, file, report
        self.outcome: dict[str, str] = json.loads(report.read_text()) if report.exists() else {}
        self.seconds: dict[str, float] = {}  # a test's node id -> how long it took without a mutant
        self.cpu_seconds: dict[str, float] = {}  # the same, of the processor
        self.reached: dict[str, set[str]] = {}  # a test's node id -> the functions that it called
        self.failed: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Before anything of the package is imported, and before pytest's own finder, which also finds the package."""
        assert name_of(self.module) not in sys.modules
        sys.meta_path.insert(0, Finder(self.module, self.file.code))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Without a mutant no test may fail."""
        if report.failed:
            self.failed.append(f"{report.nodeid} ({report.when})\n{report.longreprtext[-1500:]}")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of pytest's own loop."""
        if session.testsfailed:
            self.failed.append("the tests cannot be collected")
            return True
        self.run_once(session)
        if not self.failed:
            self.run_mutants(session)
        with contextlib.suppress(AssertionError):  # that a mutant wrote to a golden store
            session._setupstate.teardown_exact(None)
        return True

    def run_mutants(self, session: pytest.Session) -> None:
        """All that have no outcome yet; ends early when a mutant wrote to a golden store and a fresh one is needed."""
        base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        shared = stamps(base)
        gc.collect()
        gc.freeze()
        for name in self.file.mutant_names:
            if name in self.outcome:
                continue
            self.outcome[name] = self.one(session, name, base / "mutant")
            shutil.rmtree(base / "mutant", ignore_errors=True)
            self.report.write_text(json.dumps(self.outcome), encoding="utf-8")
            if stamps(base) != shared:
                return

    def run_once(self, session: pytest.Session) -> None:
        """All tests without a mutant: how long each takes, and which of the module's functions it reaches."""
        set_mutant_under_test("stats")
        # What lives as long as the session (golden stores) stays for the mutants: it is all that is not torn down.
        last = SimpleNamespace(listchain=lambda: [session])
        for item, following in zip(session.items, [*session.items[1:], last], strict=True):
            state()._stats.clear()
            began, cpu_began = time.monotonic(), time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.seconds[item.nodeid] = time.monotonic() - began
            self.cpu_seconds[item.nodeid] = time.process_time() - cpu_began
            self.reached[item.nodeid] = set(state()._stats)
            if self.failed:
                return
        set_mutant_under_test("")

    def one(self, session: pytest.Session, name: str, folder: Path) -> str:
        """Try one mutant."""
        function = f"{name_of(self.module)}.{name.partition('__mutmut_')[0]}"
        items = [item for item in session.items if function in self.reached[item.nodeid]]
        if not items:
            return "no test"
        items.sort(key=lambda item: self.seconds[item.nodeid])
        usual = sum(self.seconds[item.nodeid] for item in items)
        folder.mkdir()
        before = children()
        child = os.fork()
        if not child:
            try:
                begin_mutant(session, f"{name_of(self.module)}.{name}", folder)
                for item, following in zip(items, [*items[1:], None], strict=True):
                    spend(2 + 5 * self.cpu_seconds[item.nodeid])
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                os._exit(0)
            except BaseException:
                os._exit(3)
        code = wait(child, int((5 + 5 * usual) / TICK), before)
        return "alive" if code == 0 else "too long" if code is None else f"died of {code}"


def begin_mutant(session: pytest.Session, name: str, folder: Path) -> None:
    """Make a forked process that of a mutant."""
    quiet = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(quiet, fd)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    os.chdir(folder)
    session.config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
    session.config.pluginmanager.register(EndAtFailure())
    set_mutant_under_test(name)


def spend(seconds: float) -> None:
    """A signal ends this process when it has used the processor for so much longer."""
    limit = int(time.process_time() + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def children() -> set[int]:
    """Children of this process; with PR_SET_CHILD_SUBREAPER also what ended processes among them had started."""
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def wait(child: int, ticks: int, before: Collection[int]) -> int | None:
    """A process's exit code, negative if a signal ended it; None if it took too long.

    Nothing of it is left behind: children that were not there `before` it was forked are ended.
    """
    code: int | None = None
    for tick in range(ticks):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(TICK if tick > 20 else TICK / 5)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    while left := children().difference(before):  # what a test had started: this process inherits it
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return code


def stamps(base: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file of the unpacked golden stores."""
    found = {}
    for folder in base.glob("golden*"):
        for path in folder.rglob("*"):
            about = path.lstat()
            found[str(path)] = (about.st_size, about.st_mtime_ns)
    return found


def main(module: str, report: Path, tests: Sequence[str]) -> int:
    """Run from the command line."""
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    forks = Forks(module, mutated(module), report.absolute())
    words = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-q", "-s", "-p", "no:cacheprovider"]
    words += ["-p", "labs.mutants.few_examples"]
    words += ["-o", "tmp_path_retention_policy=none", *(str(ROOT / test) for test in tests)]
    with tempfile.TemporaryDirectory() as folder:  # where a mutant writes that lost the directory before a name
        os.chdir(folder)
        code = pytest.main(words, plugins=[forks])
        os.chdir(ROOT)
    for text in forks.failed:
        print("without a mutant this fails:", text)
    return BASELINE_FAILED if forks.failed else int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
