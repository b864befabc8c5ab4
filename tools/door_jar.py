"""Builds the jar of the source in the JVM from src/flintmq/spark/door/java, by the compiler among PySpark's jars.

`python tools/door_jar.py`. Equal sources give equal bytes: names are in order, times are none. Without Java or PySpark,
or if a source does not compile, a line says so; FlintMQ works without the jar, by the source in Python. With
FLINTMQ_MUST_COMPILE=1 that is an error.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

from flintmq.version import OURS

SOURCES = Path(__file__).resolve().parents[1] / "src/flintmq/spark/door/java"
JAR = SOURCES.parent / "flintmq-door.jar"
LANGUAGE = 8  # what Janino knows
DIGEST = "flintmq/spark/sources"
NO_TIME = (1980, 1, 1, 0, 0, 0)  # the least that a zip file can say


def compile_sources(classes: Path) -> None:
    """Write the classes of all sources below a directory."""
    warnings.simplefilter("ignore", FutureWarning)  # of PySpark, about pandas
    from pyspark.java_gateway import launch_gateway

    from flintmq.spark.java import use_java

    use_java()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    gateway = launch_gateway(popen_kwargs=quiet)  # type: ignore[no-untyped-call]
    try:
        java = gateway.jvm
        sources = sorted(SOURCES.rglob("*.java"))
        files = gateway.new_array(java.java.io.File, len(sources))
        for number, source in enumerate(sources):
            files[number] = java.java.io.File(str(source))
        compiler = java.org.codehaus.janino.CompilerFactory().newCompiler()
        compiler.setSourceVersion(LANGUAGE)
        compiler.setTargetVersion(LANGUAGE)
        compiler.setDestinationDirectory(java.java.io.File(str(classes)), False)
        compiler.compile(files)
    except Exception as error:
        raise RuntimeError(str(error)) from None  # its words come from Java, while that runs
    finally:
        gateway.shutdown()


def pack(classes: Path, jar: Path) -> None:
    """Write a jar of classes, and of the files beside the sources that are none."""
    found = {path.relative_to(classes): path for path in classes.rglob("*.class")}
    others = (path for path in SOURCES.rglob("*") if path.is_file() and path.suffix != ".java")
    found |= {path.relative_to(SOURCES): path for path in others}
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in sorted(found):
            packed.writestr(zipfile.ZipInfo(name.as_posix(), NO_TIME), found[name].read_bytes())
        packed.writestr(zipfile.ZipInfo("flintmq/spark/version", NO_TIME), OURS)
        packed.writestr(zipfile.ZipInfo(DIGEST, NO_TIME), digest())


def digest() -> str:
    """Return a number of the sources, by which a test knows a jar of older ones."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.rglob("*.java")))).hexdigest()


def main() -> str | None:
    """Build it; return what went wrong, if it must not."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            compile_sources(Path(folder))
            pack(Path(folder), JAR)
    except Exception as error:
        JAR.unlink(missing_ok=True)  # one of older sources is worse than none
        reason = " ".join(str(error).split())[:300]
        if os.environ.get("FLINTMQ_MUST_COMPILE", "") not in ("", "0"):
            return f"flintmq: no jar for Spark ({reason}), and FLINTMQ_MUST_COMPILE is set"
        print(f"flintmq: no jar for Spark ({reason}); the source in Python is used instead", file=sys.stderr)
    return None


if __name__ == "__main__":
    sys.exit(main())
