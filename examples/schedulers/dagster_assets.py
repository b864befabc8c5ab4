"""Exports new messages into a Delta table, an asset of Dagster, and compares it in a check.

    dagster dev -f dagster_assets.py

It needs `dagster` and `flintmq[delta]` in one environment. docs/spark/airflow.md says how it was tried.
"""

from __future__ import annotations

import dagster

import flintmq

STORES, TABLE = "/data/{broker}/store", "/lake/orders"


@dagster.asset(retry_policy=dagster.RetryPolicy(max_retries=3, delay=30))
def orders() -> dagster.MaterializeResult:
    """Messages of all brokers, each once."""
    done = flintmq.export(STORES, TABLE, to="delta")
    return dagster.MaterializeResult(metadata={"rows": done.rows, "export": done.number})


@dagster.asset_check(asset=orders)
def equals_the_stores() -> dagster.AssetCheckResult:
    """Compare each row of the table with its message."""
    found = flintmq.compare_table(STORES, TABLE)
    return dagster.AssetCheckResult(passed=found.equal, metadata={"rows": found.rows, "waiting": found.waiting})


every_ten_minutes = dagster.ScheduleDefinition(
    name="every_ten_minutes", cron_schedule="*/10 * * * *", target=dagster.AssetSelection.assets(orders)
)
defs = dagster.Definitions(assets=[orders], asset_checks=[equals_the_stores], schedules=[every_ten_minutes])
