"""The questions: each asks all of a store in one way and gives what came, as rows."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import flintmq
from flintmq.errors import FlintError
from labs.matrix.judge import ALLOWED_EXITS, Answer, Subject, is_ours, wrong_rows, wrong_while_written
from tests.robustness.hostile.commands import Outcome, complaints, run, stamps
from tests.robustness.matrix.truth import Row, body_digest

COLUMNS = ["topic", "queue_id", "queue_offset", "physical_offset", "size", "body", "tags", "keys"]
Ask = Callable[[Subject], Answer]


class Cell(NamedTuple):
    """One question.

    Attributes:
        ask: asks it.
        kind: what the rows are compared with, as `judge.wrong_rows` has it.
        spark: needs Spark, the session is in `spark_cells`.
        live: may be asked of a store that somebody writes meanwhile.
    """

    ask: Ask
    kind: str
    spark: bool = False
    live: bool = False


CELLS: dict[str, Cell] = {}


class Wrong(AssertionError):
    """A cell saw for itself that something is wrong."""


def cell(name: str, kind: str = "log", *, spark: bool = False, live: bool = False) -> Callable[[Ask], Ask]:
    """Enter a question in the table."""

    def enter(ask: Ask) -> Ask:
        CELLS[name] = Cell(ask, kind, spark, live)
        return ask

    return enter


def try_cell(name: str, subject: Subject) -> list[str]:
    """Ask one question about one store: everything that is wrong, in words."""
    asked, live = CELLS[name], subject.case.state == "live"
    before = {} if live else subject.stamps
    earlier = subject.fresh() if live else []
    try:
        answer = asked.ask(subject)
        wrong = (
            wrong_while_written(answer, earlier, subject.fresh()) if live else wrong_rows(subject, asked.kind, answer)
        )
    except Wrong as error:
        wrong = [str(error)]
    except FlintError as error:
        wrong = wrong_rows(subject, asked.kind, Answer([], str(error) or type(error).__name__))
    except Exception as error:
        wrong = [f"{type(error).__name__}: {str(error)[:600]}"]
    if not live and stamps(subject.path) != before:
        wrong.append("the store was changed")
    return [f"{subject.name} / {name}: {what}" for what in wrong]


# -- rows from what readers give -------------------------------------------------------------------------------------


def from_values(values: Iterable[Any]) -> Row:
    """A row from the values of COLUMNS."""
    topic, queue_id, queue_offset, physical_offset, size, body, tags, keys = values
    return Row(topic, queue_id, queue_offset, physical_offset, size, body_digest(bytes(body)), tags, keys)


def from_table(table: Any) -> list[Row]:
    """Rows from a pyarrow table that has COLUMNS."""
    columns = [table.column(name).to_pylist() for name in COLUMNS]
    return [from_values(values) for values in zip(*columns, strict=True)]


def from_json(lines: bytes) -> list[Row]:
    """Rows from the lines of `--json`."""
    found = []
    for line in lines.splitlines():
        one = json.loads(line)
        found.append(
            from_values([*(one[n] for n in COLUMNS[:5]), base64.b64decode(one["body"]), one["tags"], one["keys"]])
        )
    return found


def command(subject: Subject, *words: object) -> tuple[Outcome, str]:
    """Run a command on the store; what it said of trouble.

    Raises:
        Wrong: a traceback, an exit code that is not in the table, noise.
    """
    given = [str(word) for word in words]
    at = given.index("--") if "--" in given else len(given)
    done = run(*given[:at], *subject.case.sets, *given[at:])
    found = complaints(done, ALLOWED_EXITS)
    if found:
        raise Wrong("; ".join(found))
    return done, done.err.strip() or f"exit code {done.status}" if done.status else ""


# -- the log ---------------------------------------------------------------------------------------------------------


@cell("scan --json", live=True)
def scan(subject: Subject) -> Answer:
    done, told = command(subject, "scan", subject.path, "--json")
    return Answer(from_json(done.out), told)


@cell("scan --skip-damage", "lenient", live=True)
def scan_lenient(subject: Subject) -> Answer:
    done, told = command(subject, "scan", subject.path, "--json", "--skip-damage")
    return Answer(from_json(done.out), told)


@cell("scan --topic, one after the other")
def scan_topics(subject: Subject) -> Answer:
    topics = dict.fromkeys(row.topic for row in subject.rows)
    if len(topics) > 40:
        topics = dict.fromkeys(list(topics)[:: len(topics) // 20])
    found, told = [], ""
    for topic in topics:
        done, said = command(subject, "scan", subject.path, "--json", "--topic", topic)
        found += from_json(done.out)
        told = told or said
    return Answer(found + [row for row in subject.rows if row.topic not in topics], told)


@cell("sql", live=True)
def sql(subject: Subject) -> Answer:
    columns = ", ".join(COLUMNS).replace("body", "base64(body) as body")
    done, told = command(subject, "sql", subject.path, f"select {columns} from messages", "--json")
    return Answer(from_json(done.out), told)


@cell("scan_arrow", live=True)
def scan_arrow(subject: Subject) -> Answer:
    return Answer(from_table(flintmq.scan_arrow(subject.path, COLUMNS, set=subject.case.keys).read_all()))


@cell("scan_arrow, all columns, lenient", "lenient")
def scan_arrow_all(subject: Subject) -> Answer:
    from flintmq.store.commitlog.report import Report

    report = Report()
    rows = from_table(
        flintmq.scan_arrow(subject.path, strict=False, set=subject.case.keys, report=report, decompress=True).read_all()
    )
    return Answer(rows, "; ".join(map(str, report.damages)))


@cell("view.messages", live=True)
def view_messages(subject: Subject) -> Answer:
    found: list[Row] = []
    with flintmq.open_store(subject.path, set=subject.case.keys) as view:
        try:
            for m in view.messages():
                values = m.topic, m.queue_id, m.queue_offset, m.physical_offset, m.size, m.body, m.tags, m.keys
                found.append(from_values(values))
        except FlintError as error:
            return Answer(found, str(error))
    return Answer(found)


@cell("DuckDB on the dataset", live=True)
def duckdb_dataset(subject: Subject) -> Answer:
    import duckdb

    messages = flintmq.dataset(subject.path, set=subject.case.keys)
    with duckdb.connect() as db:
        db.register("messages", messages)
        try:
            return Answer(from_table(db.sql(f"select {', '.join(COLUMNS)} from messages").to_arrow_table()))
        except duckdb.Error as error:
            return Answer([], str(error))


@cell("Polars on the scan", live=True)
def polars_scan(subject: Subject) -> Answer:
    import polars

    frame = flintmq.scan_polars(subject.path, set=subject.case.keys)
    try:
        return Answer(from_table(frame.select(COLUMNS).collect().to_arrow()))
    except (polars.exceptions.PolarsError, FlintError) as error:
        return Answer([], str(error))


@cell("pandas from the scan", live=True)
def pandas_scan(subject: Subject) -> Answer:
    frame = flintmq.scan_arrow(subject.path, COLUMNS, set=subject.case.keys).read_pandas()
    none = frame[COLUMNS].astype(object).where(frame[COLUMNS].notna(), None)  # a column of nothing but nulls is NaN
    rows = none.itertuples(index=False)
    return Answer([from_values(values) for values in rows])


# -- queues and index ------------------------------------------------------------------------------------------------


@cell("view.get, message by message", "queues")
def view_get(subject: Subject) -> Answer:
    found, told = [], ""
    with flintmq.open_store(subject.path, set=subject.case.keys) as view:
        for row in subject.queued[:: max(1, len(subject.queued) // 3000)]:
            try:
                m = view.get(row.topic, row.queue_id, row.queue_offset)
            except FlintError as error:
                told = told or str(error)
                continue
            values = m.topic, m.queue_id, m.queue_offset, m.physical_offset, m.size, m.body, m.tags, m.keys
            found.append(from_values(values))
    asked = set(subject.queued[:: max(1, len(subject.queued) // 3000)])
    return Answer(found + [row for row in subject.queued if row not in asked], told)


@cell("get of the first, the last and one between", "queues")
def get(subject: Subject) -> Answer:
    for row in (
        {subject.queued[0], subject.queued[len(subject.queued) // 2], subject.queued[-1]} if subject.queued else ()
    ):
        done, told = command(subject, "get", subject.path, "--json", "--", row.topic, row.queue_id, row.queue_offset)
        found = from_json(done.out)
        if found != [row] and not told:
            raise Wrong(f"get gave {found} for {row} and told nothing")
        if told and subject.case.state == "sound":
            raise Wrong(f"get of {row}: {told}")
    return Answer(subject.queued, "" if subject.case.state == "sound" else "not asked whole")


@cell("query by key", "queues")
def query(subject: Subject) -> Answer:
    keyed = [row for row in subject.queued if row.keys]
    for row in keyed[:: max(1, len(keyed) // 4)]:
        key = (row.keys or "").split(" ")[0]
        done, told = command(subject, "query", subject.path, "--json", "--", row.topic, key)
        found = from_json(done.out)
        if row not in found and not told and subject.case.state == "sound":
            raise Wrong(f"query of {key} gave {found} without {row}, and told nothing")
        if any(other.topic != row.topic or key not in (other.keys or "").split(" ") for other in found):
            raise Wrong(f"query of {row.topic} {key} gave {found}")
    return Answer(subject.queued, "" if subject.case.state == "sound" else "not asked whole")


@cell("tail", "queues")
def tail(subject: Subject) -> Answer:
    topics = list(dict.fromkeys(row.topic for row in subject.queued))
    for topic in topics[:: max(1, len(topics) // 5)]:
        done, told = command(subject, "tail", subject.path, "--json", "--lines", 3, "--", topic)
        wanted = [row for row in subject.queued if row.topic == topic]
        newest = {row.physical_offset for row in wanted[-3:]}
        found = from_json(done.out)
        if {row.physical_offset for row in found} != newest and not told and subject.case.state == "sound":
            raise Wrong(f"tail of {topic} gave {found}, wanted {newest}")
        if set(found) - set(wanted):
            raise Wrong(f"tail of {topic} gave rows that are not there: {set(found) - set(wanted)}")
    return Answer(subject.queued, "" if subject.case.state == "sound" else "not asked whole")


# -- commands that look ----------------------------------------------------------------------------------------------


def looks(name: str, *words: str, tells: tuple[str, ...] = ()) -> None:
    """Enter a command that gives no rows; `tells`: states of which it must speak by its exit code."""

    def ask(subject: Subject) -> Answer:
        filled = [str(subject.path) if word == "STORE" else word for word in words]
        done, told = command(subject, *filled)
        if name == "verify" and subject.case.defect:
            if f'"{subject.case.defect}"'.encode() not in done.out:
                raise Wrong(f"no {subject.case.defect} in {done.out[-500:]!r}")
            return Answer(None, "looked")
        if subject.case.state in tells:
            return Answer(None, told)
        if told and subject.case.state == "sound":
            raise Wrong(told[-500:])
        return Answer(None, "looked")

    CELLS[name] = Cell(ask, "log")


looks("inspect", "inspect", "STORE", "--json")
looks("verify", "verify", "STORE", "--json", tells=("hole",))
looks("recover --dry-run", "recover", "STORE", "--dry-run", "--json", tells=("hole",))
looks("retention explain", "retention", "explain", "STORE", "--json")


PATTERNS = ("commitlog/*", "consumequeue/*/*/*", "index/*", "checkpoint", "flintmq.mark", "config/*", "lock", "abort")


@cell("explain every kind of file")
def explain(subject: Subject) -> Answer:
    for pattern in (
        "commitlog/*",
        "consumequeue/*/*/*",
        "index/*",
        "checkpoint",
        "flintmq.mark",
        "config/*",
        "lock",
        "abort",
    ):
        for path in [one for one in sorted(subject.path.glob(pattern)) if one.is_file()][:2]:
            command(subject, "explain", path, "--json")
    return Answer(None, "looked")


# -- commands that make something ------------------------------------------------------------------------------------


def made(subject: Subject, into: Path, told: str) -> Answer:
    """The rows of a store that was made, by the slow codec, without the offsets that are its own."""
    rows = truth_rows(into)
    shutil.rmtree(into, ignore_errors=True)
    return Answer(rows, told)


def truth_rows(store: Path) -> list[Row]:
    """The rows of another store's log."""
    from tests.robustness.matrix import truth

    return truth.rows(store)


@cell("copy", live=True)
def copy(subject: Subject) -> Answer:
    into = subject.new("copy")
    _, told = command(subject, "copy", subject.path, "--into", into, "--json")
    return made(subject, into, told)


@cell("salvage --into", "lenient")
def salvage(subject: Subject) -> Answer:
    into = subject.new("salvaged")
    _, told = command(subject, "salvage", subject.path, "--into", into, "--json")
    rows = truth_rows(into)
    shutil.rmtree(into, ignore_errors=True)
    plain = {(r.topic, r.queue_id, r.body, r.tags, r.keys) for r in rows}
    lost = [r for r in subject.rows if (r.topic, r.queue_id, r.body, r.tags, r.keys) not in plain]
    if lost or len(rows) != len(subject.rows):
        raise Wrong(f"salvage kept {len(rows)} of {len(subject.rows)} records, lost {lost[:1]}; told {told[-200:]}")
    return Answer(subject.rows, told or ("" if subject.case.state == "sound" else "salvaged"))


@cell("rebuild")
def rebuild(subject: Subject) -> Answer:
    into = subject.new("rebuilt")
    _, told = command(subject, "rebuild", subject.path, "--into", into, "--json")
    wrong = compare_queues(subject, into) if not told else []
    shutil.rmtree(into, ignore_errors=True)
    if wrong:
        raise Wrong("; ".join(wrong[:3]))
    return Answer(None, told if subject.case.state == "hole" else told or "looked")


def compare_queues(subject: Subject, made_store: Path) -> list[str]:
    """What is wrong with queues that were made: every record with a unit has its unit at its place, and no other."""
    from flintmq.testing import slow_read

    wanted = {(r.topic, r.queue_id, r.queue_offset): (r.physical_offset, r.size) for r in subject.queued}
    found = {}
    for topic, queue_id in slow_read.queues(made_store):
        first = slow_read.first_unit(made_store, topic, queue_id)
        for number, unit in enumerate(slow_read.units(made_store, topic, queue_id), first):
            if unit.size != 0x7FFFFFFF:  # one that stands before a queue's first message
                found[topic, queue_id, number] = unit.physical_offset, unit.size
    return [f"unit {key}: wanted {wanted.get(key)}, found {found.get(key)}" for key in wanted.keys() | found.keys()
            if wanted.get(key) != found.get(key)]  # fmt: skip


# -- the engine ------------------------------------------------------------------------------------------------------


@cell("the engine on a copy of the files", "queues")
def engine(subject: Subject) -> Answer:
    """Open, read every queue to its end, put one more, close, and see that the log kept all."""
    store = subject.new("engine")
    shutil.copytree(subject.path, store, symlinks=True)
    found: list[Row] = []
    try:
        with flintmq.MessageStore(store, subject.case.keys) as opened:
            opened.wait_dispatched(60)
            for topic, queue_id in sorted({(row.topic, row.queue_id) for row in subject.queued}):
                found += queue_of(opened, topic, queue_id)
            again = flintmq.Message("Orders", b"one more", queue_id=0)
            if opened.put(again).status.name != "PUT_OK":
                raise Wrong("a put was refused")
        left = truth_rows(store)
        if left[: len(subject.rows)] != subject.rows or len(left) != len(subject.rows) + 1:
            raise Wrong(f"the log had {len(subject.rows)} records, and has {len(left)} after one put")
    except FlintError as error:
        if not is_ours(error):
            raise
        return Answer(found, str(error))
    finally:
        shutil.rmtree(store, ignore_errors=True)
    return Answer(found, "opened" if subject.case.state != "sound" else "")


def queue_of(opened: flintmq.MessageStore, topic: str, queue_id: int) -> list[Row]:
    """Every message of a queue, by gets of up to 32."""
    rows: list[Row] = []
    at, end = 0, 1
    while at < end:
        got = opened.get(topic, queue_id, at, 32)
        end = got.max_offset
        for m in got.messages:
            values = m.topic, m.queue_id, m.queue_offset, m.physical_offset, m.size, m.body, m.tags, m.keys
            rows.append(from_values(values))
        if got.next_begin_offset <= at:
            break
        at = got.next_begin_offset
    return rows
