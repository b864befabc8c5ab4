"""Makes flintmq.pyz: `python -m tools.one_file WHEEL flintmq.pyz`.

It is the pure wheel as one file, for a machine without package index: `python3 flintmq.pyz verify STORE`, with Python
3.11 or newer. `import cython` in kernels finds `kernels/_cython.py` there, because a zip file has no place for a finder
of sources. Commands on Spark say that it is missing, also where it is not: its workers cannot import from the file.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("flintmq: needs Python 3.11 or newer, and this is %d.%d" % sys.version_info[:2])
sys.modules["pyspark"] = None  # a command that needs it says that it is not there
from flintmq.__main__ import main

main()
"""


def make(wheel: Path, out: Path) -> None:
    """Write the file.

    Raises:
        ValueError: the wheel has compiled kernels, which no zip file can load.
    """
    with zipfile.ZipFile(wheel) as source:
        names = source.namelist()
        if compiled := [name for name in names if name.endswith(".so")]:
            raise ValueError(f"{wheel} has compiled kernels ({compiled[0]}); give the one that ends with -none-any.whl")
        files = {name: source.read(name) for name in names if name.endswith(".py") or ".dist-info/" in name}
    files |= {"cython.py": files["flintmq/kernels/_cython.py"], "__main__.py": MAIN.encode()}
    part = out.with_name(out.name + ".part")
    with open(part, "wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, content in sorted(files.items()):
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)  # of 1980: the same each time
    part.chmod(0o755)
    os.replace(part, out)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m tools.one_file WHEEL FILE.pyz")
    make(Path(sys.argv[1]), Path(sys.argv[2]))
