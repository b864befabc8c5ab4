"""Chooses between a compiled kernel and its Python source, and reports which one runs.

Python prefers `walk.cpython-311-x86_64-linux-gnu.so` to `walk.py` if both are present, which is right for users. With
FLINTMQ_PURE=1 in the environment the sources must run nevertheless (tests run both ways), so `install()` puts a finder
before Python's own that finds only the sources of this folder and of its rooms.

Sources are loaded with `_cython` in place of the module `cython`, which no installation needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from types import ModuleType

PACKAGE = "flintmq.kernels"
FOLDER = os.path.dirname(os.path.abspath(__file__))


def pure() -> bool:
    """Return whether the environment asks for uncompiled kernels."""
    return os.environ.get("FLINTMQ_PURE", "") not in ("", "0")


class SourceLoader(SourceFileLoader):
    """Loads a kernel's source, with our own module under the name `cython` meanwhile."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the source."""
        from flintmq.kernels import _cython

        loaded = "cython" in sys.modules
        before = sys.modules.get("cython")
        sys.modules["cython"] = _cython
        try:
            super().exec_module(module)
        finally:
            if loaded:
                sys.modules["cython"] = before  # type: ignore[assignment]
            else:
                sys.modules.pop("cython", None)


class SourceFinder:
    """Finds the kernels that run uncompiled: all of them if FLINTMQ_PURE is set."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a kernel's source; None for every other module."""
        if not fullname.startswith(PACKAGE + "."):
            return None
        place = _place(fullname.removeprefix(PACKAGE + "."))
        if not os.path.isfile(place + ".pxd") or (not pure() and _extension(place) is not None):
            return None
        spec = ModuleSpec(fullname, SourceLoader(fullname, place + ".py"), origin=place + ".py")
        spec.has_location = True
        return spec


def install() -> None:
    """Make sources run where there is no compiled form, or FLINTMQ_PURE asks for them.

    Called once, before any kernel is imported.
    """
    if not compiled() and not any(isinstance(finder, SourceFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, SourceFinder())


def kernels() -> dict[str, str]:
    """Return the module of each kernel, by its name: `walk` is `read.walk`. Imports no kernel.

    A kernel is a `.py` file of this folder or of a room with a `.pxd` beside it. setup.py asks, too. There is no folder
    in a zip file (tools/one_file.py), where no kernel can be compiled.
    """
    if not os.path.isdir(FOLDER):
        return {}
    found = {
        name[:-4]: f"{room}.{name[:-4]}" if room else name[:-4]
        for room in ("", *_rooms())
        for name in os.listdir(os.path.join(FOLDER, room))
        if name.endswith(".pxd") and os.path.isfile(os.path.join(FOLDER, room, name[:-4] + ".py"))
    }
    return dict(sorted(found.items()))


def state() -> dict[str, bool]:
    """Return for each kernel whether an import loads its compiled form. Imports no kernel."""
    return {name: not pure() and _extension(_place(module)) is not None for name, module in kernels().items()}


def sources_of(module: str) -> list[str]:
    """Return the files that a kernel's compiled form is made of, its Python source first.

    These are its C types, those that they name, however far, and their headers. setup.py asks, too.
    """
    import re  # later: every command loads this module

    types, headers, new = set[str](), set[str](), {module}
    while new:
        types |= new
        texts = []
        for each in new:
            with open(_place(each) + ".pxd", encoding="utf-8") as file:
                texts.append(file.read())
        headers |= {header for text in texts for header in re.findall(r'extern from "(\w+\.h)"', text)}
        new = {found for text in texts for found in re.findall(r"flintmq\.kernels\.([\w.]+) cimport", text)} - types
    paths = [_place(module) + ".py", *sorted(_place(each) + ".pxd" for each in types)]
    paths += [os.path.join(FOLDER, room, header) for header in sorted(headers) for room in ("", *_rooms())]
    return [path for path in paths if os.path.isfile(path)]  # another header is the system's


def stale() -> list[str]:
    """Return the kernels whose compiled form is older than a source but would be imported.

    Checked only in a source tree: an installer sets file times as it likes.
    """
    changed: list[str] = []
    if not os.path.isfile(os.path.join(FOLDER, "..", "..", "..", "setup.py")):
        return changed
    states = state()
    for name, module in kernels().items():
        binary = _extension(_place(module))
        if not states[name] or binary is None:
            continue
        if max(map(os.path.getmtime, sources_of(module))) > os.path.getmtime(binary):
            changed.append(name)
    return changed


def compiled() -> bool:
    """Return whether every kernel runs compiled."""
    states = state().values()
    return bool(states) and all(states)


def _rooms() -> list[str]:
    return sorted(name for name in os.listdir(FOLDER) if os.path.isfile(os.path.join(FOLDER, name, "__init__.py")))


def _place(module: str) -> str:
    """Return the path of a module below this package, without a suffix."""
    return os.path.join(FOLDER, *module.split("."))


def _extension(place: str) -> str | None:
    for suffix in EXTENSION_SUFFIXES:
        if os.path.isfile(place + suffix):
            return place + suffix
    return None
