"""Exports new messages into a Delta table every ten minutes, and compares it: Airflow 3.

docs/spark/airflow.md says how it was tried, and what its options are for. Put it into Airflow's folder of DAGs.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

STORES, TABLE = "/data/{broker}/store", "/lake/orders"

with DAG(
    "orders",
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
):
    export = BashOperator(task_id="export", bash_command=f"flintmq export '{STORES}' --out {TABLE} --to delta --json")
    compare = BashOperator(task_id="compare", bash_command=f"flintmq diff '{STORES}' {TABLE} --json")
    export >> compare
