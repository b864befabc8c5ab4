"""Compiles the kernels; everything else about the package stands in pyproject.toml.

A kernel is a file `NAME.py` of `src/flintmq/kernels` or of a room there, with an augmenting `NAME.pxd` beside it
(Cython's pure-Python mode). It runs uncompiled too, so no failure here stops an installation: without Cython, without a
C compiler, or after a failed compile, one line says so and the package is installed uncompiled.

Environment:
    FLINTMQ_PURE=1          compile nothing: the wheel fits every Python and every machine
    FLINTMQ_MUST_COMPILE=1  a kernel that does not compile ends the build: for wheels that are given away
"""

from __future__ import annotations

import os
import re
import runpy
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNELS = Path("src/flintmq/kernels")
SHARED = "flintmq.kernels._shared"  # Cython's own code for buffers, once for all kernels: half of each one's size
CYTHONIZE = {
    "shared_utility_qualified_name": SHARED,
    "build_dir": "build/cython",  # keeps the generated C out of the source tree
    "include_path": ["src"],
    "compiler_directives": {
        "show_performance_hints": False,  # bounds checks stay on, on purpose
        "freethreading_compatible": True,  # puts take a lock of their own where there is no GIL
    },
    "quiet": True,
}


def uncompiled(what: str, error: object) -> None:
    """Say in one line that kernels stay uncompiled.

    Raises:
        SystemExit: all must be compiled.
    """
    reason = " ".join(str(error).split())[:200]
    if os.environ.get("FLINTMQ_MUST_COMPILE", "") not in ("", "0"):
        raise SystemExit(f"flintmq: {what} ({reason}), and FLINTMQ_MUST_COMPILE is set")
    print(f"flintmq: {what} ({reason}); it works without, only slower", file=sys.stderr)


def kernels() -> list[Extension]:
    """The extension modules to build: none where none are wanted or possible."""
    if os.environ.get("FLINTMQ_PURE", "") not in ("", "0"):
        return []
    select = runpy.run_path(str(KERNELS / "_select.py"))
    flags = {
        "extra_compile_args": ["-O3", "-g0"],  # no names for debuggers: a fifth of the size
        "extra_link_args": ["-Wl,-S"] if sys.platform == "darwin" else ["-Wl,-s"],
    }
    headers = sorted({str(header.parent) for header in KERNELS.rglob("*.h")})
    extensions = []
    for module in select["kernels"]().values():
        source, *depends = map(os.path.relpath, select["sources_of"](module))
        name = f"flintmq.kernels.{module}"
        extensions.append(Extension(name, [source], depends=depends, include_dirs=headers, **flags))
    if not extensions:
        return []
    try:
        from Cython.Build import cythonize
    except ImportError as error:
        uncompiled("Cython is missing, so the kernels stay uncompiled", error)
        return []
    extensions.insert(0, Extension(SHARED, [str(KERNELS / "_shared.c")], **flags))
    done = []
    for extension in extensions:  # one by one: a kernel that Cython rejects does not take the others with it
        try:
            done += cythonize([extension], **CYTHONIZE)
        except Exception as error:
            uncompiled(f"{extension.name} stays uncompiled: Cython rejects it", error)
            if extension.name == SHARED:
                return []
    for extension in done:
        extension.optional = True  # then setuptools does not miss the file of a failed compile
    return done


class OptionalBuild(build_ext):
    """build_ext that goes on without a kernel it cannot compile, and compiles several at a time."""

    def finalize_options(self) -> None:
        """Use the machine's cores, four at most: a compiler takes some 200 MB."""
        super().finalize_options()
        self.parallel = self.parallel or min(os.cpu_count() or 1, 4)

    def run(self) -> None:
        """Build, then tell in one line what did not compile."""
        self.failed: dict[str, Exception] = {}
        super().run()
        if self.failed:
            names = ", ".join(sorted(name.rpartition(".")[2] for name in self.failed))
            error = next(iter(self.failed.values()))
            uncompiled(f"kernels stay uncompiled ({names}): the C compiler failed or is missing", error)

    def build_extensions(self) -> None:
        """Compile what the kernels share first; without it none of them could be imported."""
        shared = [ext for ext in self.extensions if ext.name == SHARED]
        kernels = [ext for ext in self.extensions if ext.name != SHARED]
        for self.extensions in (shared, kernels):
            if not self.failed:
                super().build_extensions()
        self.extensions = shared + kernels

    def build_extension(self, ext: Extension) -> None:
        """Compile one kernel; note a failure instead of raising it."""
        try:
            super().build_extension(ext)
        except Exception as error:
            self.failed[ext.name] = error


def read_me() -> str:
    """README.md with links that work where the package index shows it: to the files in the repository."""
    home = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]
    text = Path("README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\((?![a-z]+:|#)([^)\s]+)\)", rf"]({home}/blob/main/\1)", text)


if __name__ == "__main__":
    setup(
        ext_modules=kernels(),
        cmdclass={"build_ext": OptionalBuild},
        long_description=read_me(),
        long_description_content_type="text/markdown",
    )
