"""S5: the export job against `df.write.parquet` of the same source."""

from __future__ import annotations

import shutil

from data import sized
from harness import Context, Result, figures, measure
from spark_session import load, session


def s5(context: Context) -> list[Result]:
    """Both write every column with snappy; the job also parts by topic and date and publishes in one step."""
    from flintmq.spark.jobs.export.job import export

    spark, results = session(context), []
    out = context.scratch / "exported"
    for size, bar, moonshot in (("100B", 5.0, 8.0), ("1KB", 2.0, 3.0)):
        written = sized(context, size)
        path = str(written.path)
        samples = measure(
            context,
            {
                "df.write.parquet": lambda path=path: load(spark, path, access="map").write.parquet(str(out)),  # type: ignore[misc]
                "export": lambda path=path: export(spark, path, str(out), access="map"),  # type: ignore[misc]
            },
            before=lambda: shutil.rmtree(out, ignore_errors=True),
        )
        results.append(
            Result(
                f"S5.{size}",
                f"export, {size} bodies: speed / df.write.parquet of the same source",
                samples["df.write.parquet"].wall / samples["export"].wall,
                bar,
                moonshot=moonshot,
                bound="Parquet's encoding and snappy, and writing the files",
                detail=figures(samples),
            )
        )
    shutil.rmtree(out, ignore_errors=True)
    return results


LINES = {"S5": s5}
