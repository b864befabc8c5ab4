"""The questions that go through Spark, and through what Spark's jobs make, read by everybody who reads tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError
from flintmq.lake.shape.parquet import partition_value
from labs.matrix.cells import COLUMNS, Wrong, cell, compare_queues, from_table, truth_rows
from labs.matrix.judge import Answer, Subject
from tests.robustness.matrix.truth import Row


@cache
def session() -> Any:
    """The one Spark session of the run."""
    from flintmq.spark import session as make

    return make("matrix", "local[2]", **{"spark.sql.shuffle.partitions": 2, "spark.log.level": "OFF"})


def told_by(error: BaseException) -> str:
    """FlintMQ's own sentence in an error of Spark.

    Raises:
        Wrong: there is none.
    """
    text = str(error)
    lines = [line for line in text.splitlines() if line.startswith("flintmq.errors.") or "flintmq.errors." in line]
    if isinstance(error, FlintError):
        return text
    if not lines:
        raise Wrong(f"Spark failed with no word of ours: {text[:600]}")
    return lines[-1]


def spark_rows(frame: Any) -> Answer:
    """The rows of a data frame, or what it failed with."""
    from pyspark.errors import PySparkException

    try:
        return Answer(from_table(frame.select(*COLUMNS).toArrow()))
    except PySparkException as error:
        return Answer([], told_by(error))


def options(subject: Subject) -> dict[str, str]:
    """The keys of a store as options of the source."""
    return {key: str(value) for key, value in subject.case.keys.items()}


def load(subject: Subject, **more: str) -> Any:
    """The store as a batch frame."""
    return session().read.format("flintmq").options(**options(subject), **more).load(str(subject.path))


@cell("Spark, batch", spark=True)
def spark_batch(subject: Subject) -> Answer:
    from pyspark.errors import PySparkException

    try:
        return spark_rows(load(subject))
    except PySparkException as error:
        return Answer([], told_by(error))


@cell("Spark, batch, failOnDataLoss=false", "lenient", spark=True)
def spark_lenient(subject: Subject) -> Answer:
    got = spark_rows(load(subject, failOnDataLoss="false"))
    return Answer(got.rows, got.told or ("" if subject.case.state == "sound" else "told on stderr"))


@cell("Spark, a filter on each of some topics", spark=True)
def spark_topics(subject: Subject) -> Answer:
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import col

    topics = list(dict.fromkeys(row.topic for row in subject.rows))
    picked = topics[:: max(1, len(topics) // 12)]
    try:
        got = spark_rows(load(subject).where(col("topic").isin(picked)))
    except PySparkException as error:
        return Answer([], told_by(error))
    return Answer([*(got.rows or ()), *(row for row in subject.rows if row.topic not in picked)], got.told)


@cell("Spark, a stream", "queues", spark=True)
def spark_stream(subject: Subject) -> Answer:
    from pyspark.errors import PySparkException

    out = subject.new("streamed")
    try:
        frame = session().readStream.format("flintmq").options(**options(subject), startingOffsets="earliest")
        query = (
            frame.load(str(subject.path))
            .select(*COLUMNS)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(out / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(out / "rows"))
        )
        query.awaitTermination(300)
        return spark_rows(session().read.parquet(str(out / "rows"))) if (out / "rows").is_dir() else Answer([])
    except PySparkException as error:
        return Answer([], told_by(error))
    finally:
        shutil.rmtree(out, ignore_errors=True)


# -- jobs ------------------------------------------------------------------------------------------------------------


def job(name: str, subject: Subject, *arguments: object, **choices: object) -> Any:
    """Call one of the jobs of `flintmq.spark`."""
    import flintmq.spark

    return getattr(flintmq.spark, name)(session(), str(subject.path), *arguments, **choices)


def config(subject: Subject) -> StoreConfig:
    """The keys of a store as jobs take them."""
    return StoreConfig.from_keys(subject.case.keys)


@cell("spark rebuild", spark=True)
def spark_rebuild(subject: Subject) -> Answer:
    into = subject.new("rebuilt")
    job("rebuild", subject, str(into), config(subject))
    wrong = compare_queues(subject, into)
    shutil.rmtree(into)
    if wrong:
        raise Wrong("; ".join(wrong[:3]))
    return Answer(None, "looked")


@cell("spark dispatch", spark=True)
def spark_dispatch(subject: Subject) -> Answer:
    into = subject.new("dispatched")
    job("dispatch", subject, str(into), config(subject), once=True)
    wrong = compare_queues(subject, into)
    shutil.rmtree(into)
    if wrong:
        raise Wrong("; ".join(wrong[:3]))
    return Answer(None, "looked")


@cell("spark verify", spark=True)
def spark_verify(subject: Subject) -> Answer:
    found = job("verify", subject, config(subject))
    said = [str(one) for one in found.defects]
    codes = {one.code for one in found.defects}
    if subject.case.state == "sound" and codes != {subject.case.defect} - {""}:
        raise Wrong(f"verify found {said[:2]}, wanted {subject.case.defect or 'nothing'}")
    return Answer(None, "; ".join(said)[:300] if subject.case.state == "hole" else "looked")


@cell("spark stats", spark=True)
def spark_stats(subject: Subject) -> Answer:
    page = subject.new("stats.html")
    found = job("stats", subject, str(page), config(subject))
    if found.messages != len(subject.rows):
        raise Wrong(f"stats counted {found.messages} of {len(subject.rows)}")
    if not page.read_text(encoding="utf-8").lower().startswith("<!doctype html"):
        raise Wrong("the page is no HTML")
    return Answer(None, "looked")


@cell("spark replay into a new store", "queues", spark=True)
def spark_replay(subject: Subject) -> Answer:
    into = subject.new("replayed")
    try:
        job("replay", subject, str(into), config(subject))
        rows = truth_rows(into)
    finally:
        shutil.rmtree(into, ignore_errors=True)
    plain = sorted((r.topic, r.queue_id, r.body, r.tags or "", r.keys or "") for r in rows)
    wanted = sorted((r.topic, r.queue_id, r.body, r.tags or "", r.keys or "") for r in subject.queued)
    if plain != wanted:
        raise Wrong(f"replay put {len(plain)} of {len(wanted)} messages, or others")
    return Answer(subject.queued, "" if subject.case.state == "sound" else "replayed")


# -- exports, and everybody who reads them ---------------------------------------------------------------------------


def read_pyarrow(out: Path) -> Any:
    import pyarrow.dataset as ds

    return ds.dataset(
        sorted(map(str, out.glob("export=*/**/*.parquet"))), partitioning="hive", partition_base_dir=str(out)
    ).to_table()


def read_pandas(out: Path) -> Any:
    import pandas
    import pyarrow as pa

    return pa.Table.from_pandas(pandas.read_parquet(out, dtype_backend="pyarrow"), preserve_index=False)


def read_duckdb(out: Path) -> Any:
    import duckdb

    with duckdb.connect() as db:
        return db.sql(
            f"select * from read_parquet('{out}/export=*/**/*.parquet', hive_partitioning=true)"
        ).to_arrow_table()


def read_polars(out: Path) -> Any:
    import polars

    return polars.scan_parquet(f"{out}/export=*/**/*.parquet", hive_partitioning=True).collect().to_arrow()


def read_spark(out: Path) -> Any:
    return session().read.parquet(str(out)).toArrow()


def read_deltalake(out: Path) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(str(out)).to_pyarrow_table()


def read_polars_delta(out: Path) -> Any:
    import polars

    return polars.scan_delta(str(out)).collect().to_arrow()


Reader = Callable[[Path], Any]
PARQUET: dict[str, Reader] = {
    "pyarrow": read_pyarrow,
    "pandas": read_pandas,
    "DuckDB": read_duckdb,
    "Polars": read_polars,
    "Spark": read_spark,
}
DELTA: dict[str, Reader] = {"deltalake": read_deltalake, "Polars": read_polars_delta}


def rows_of_export(table: Any, by: str) -> list[Row]:
    """The rows of an export as a reader sees them; `topic_name` must say what `topic` says, or what stands for it.

    Raises:
        Wrong: it does not.
    """
    names = zip(table.column("topic_name").to_pylist(), table.column("topic").to_pylist(), strict=True)
    other = [(name, topic) for name, topic in set(names) if name not in (topic, partition_value(topic))]
    if other:
        raise Wrong(f"{by} reads topic_name {other[0][0]!r} for topic {other[0][1]!r}, and {len(other) - 1} more")
    return from_table(table)


def exported(subject: Subject, to: str, readers: dict[str, Reader], **choices: object) -> Answer:
    """Export, run the export again (nothing new), and read it with everybody."""
    out = subject.new(to)
    wrong: list[str] = []
    try:
        first = job("export", subject, str(out), config(subject), to=to, **choices)
        again = job("export", subject, str(out), config(subject), to=to, **choices)
        if again.rows:
            raise Wrong(f"a second export added {again.rows} rows")
        if not first.rows:
            return Answer([])
        rows: list[Row] = []
        for name, read in readers.items():
            try:
                rows = rows_of_export(read(out), name)
            except Wrong as error:
                wrong.append(str(error))
                continue
            except Exception as error:
                wrong.append(f"{name} cannot read it: {type(error).__name__}: {str(error)[:300]}")
                continue
            if sorted(rows, key=str) != sorted(subject.rows, key=str):
                wrong.append(f"{name} reads {len(rows)} rows, wanted {len(subject.rows)}, or others")
    finally:
        shutil.rmtree(out, ignore_errors=True)
    if wrong:
        raise Wrong("; ".join(wrong))
    return Answer(rows)


@cell("spark export to Parquet, five readers", spark=True)
def export_parquet(subject: Subject) -> Answer:
    return exported(subject, "parquet", PARQUET)


@cell("spark export to Delta, two readers", spark=True)
def export_delta(subject: Subject) -> Answer:
    return exported(subject, "delta", DELTA)


@cell("spark export --stream --once to Parquet", "queues", spark=True)
def export_stream(subject: Subject) -> Answer:
    out = subject.new("streamed")
    try:
        done = job("export_stream", subject, str(out), config(subject), once=True)
        return Answer(rows_of_export(read_pyarrow(out), "pyarrow") if done.rows else [])
    finally:
        shutil.rmtree(out, ignore_errors=True)
