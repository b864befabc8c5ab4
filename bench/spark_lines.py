"""S4: the Spark source, with no option but the path, against Spark's own Parquet reader on the same messages.

Sessions of Spark's differ by a fifth, so a figure is the median of three, each a process of its own, in which all cases
take turns: `python bench/spark_lines.py STORE TABLE ROUNDS QUICK`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data import SIZES, orders, sized
from harness import Context, Found, Result, measure, timed

SESSIONS = 3
JSON = "id bigint, customer string, amount double, note string"
SETTINGS = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2"}


def session(script: str, *words: object) -> dict[str, float]:
    """What a process with a session of its own tells in its last line."""
    done = subprocess.run([sys.executable, script, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the session failed: {done.stderr.strip()[-500:]}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def sessions(script: str, *words: object) -> Found:
    """The seconds of each case in each of three sessions."""
    told = [session(script, *words) for _ in range(SESSIONS)]
    return Found({name: [{"wall": one[name]} for one in told] for name in told[0]})


def all_rows(frame: Any) -> Any:
    return frame.write.format("noop").mode("overwrite").save()


def two_columns(frame: Any) -> Any:
    return all_rows(frame.select("topic", "body"))


def group_by(frame: Any) -> Any:
    return frame.groupBy("topic").count().orderBy("topic").collect()


def json_bodies(frame: Any) -> Any:
    from pyspark.sql import functions as F

    body = F.from_json(F.col("body").cast("string"), JSON).alias("order")
    found = frame.where("topic = 'Orders'").select(body).groupBy("order.note").agg(F.sum("order.amount"))
    return found.collect()


Case = Callable[[Any], Any]
OF_SIZES: dict[str, Case] = {"all": all_rows, "two": two_columns, "group": group_by}
OF_JSON: dict[str, Case] = {"json": json_bodies}


def compare(path: str, table: str, cases: dict[str, Case], context: Context) -> dict[str, float]:
    """Seconds of each case on both sides; what it answers is the same."""
    from flintmq.spark import session as flintmq_session

    spark = flintmq_session("flintmq bench", master="local[2]", **SETTINGS)

    def parquet() -> Any:
        return spark.read.parquet(table)

    def flintmq() -> Any:
        return spark.read.format("flintmq").load(path)

    if not Path(table).exists():
        flintmq().write.option("compression", "none").parquet(table)
    for case in cases.values():
        assert case(parquet()) == case(flintmq())
    both = {"parquet": parquet, "flintmq": flintmq}
    turns = {
        f"{side} {name}": timed(partial(_read, case, frame))
        for name, case in cases.items()
        for side, frame in both.items()
    }
    found = measure(context, turns, warm=True)
    spark.stop()
    return {name: found[f"{name} wall"].figure for name in turns}


def _read(case: Case, frame: Callable[[], Any]) -> None:
    case(frame())


def s4(context: Context) -> dict[str, Result]:
    results = {}
    for size in SIZES:
        path = sized(context, size).path
        found = sessions(__file__, path, context.scratch / f"parquet-{size}", context.rounds, context.quick)
        for name in OF_SIZES:
            ratio = found[f"parquet {name} wall"] / found[f"flintmq {name} wall"]
            results[f"S4.{name}.{size}"] = found.result(ratio, sessions=SESSIONS)
    found = sessions(
        __file__, orders(context)[0], context.scratch / "parquet-json", context.rounds, context.quick, "json"
    )
    results["S4.json"] = found.result(found["parquet json wall"] / found["flintmq json wall"], sessions=SESSIONS)
    return results


def main(path: str, table: str, rounds: str, quick: str, bodies: str = "") -> None:
    context = Context(Path(tempfile.gettempdir()), 0, int(rounds), quick == "True")
    print(json.dumps(compare(path, table, OF_JSON if bodies else OF_SIZES, context)))


FAMILIES = {"S4": s4}
if __name__ == "__main__":
    main(*sys.argv[1:])
