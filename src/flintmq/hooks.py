"""Names what the core takes from the lake, from what is live, and from the pages above it.

FlintMQ has three quarters: the core; the lake (`lake`, `spark`, `cli/lake`); what is live (`broker`, `ha`, `metrics`,
`remoting`, `cli/live`). The two may import the core, and know neither each other nor are known to it. Where the core
needs one of them, it loads a hook by its name here, when it is used. So does the command that serves the pages of
`ui`, which are of the core, and above the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

HOOKS: Final = {
    "compare_table": "flintmq.lake.history.diff_table:compare_table",
    "decoded_columns": "flintmq.lake.bodies.column:DecodedColumns",
    "diff_with_a_table": "flintmq.cli.lake.table_diff:diff_with_a_table",
    "doctor_rows": "flintmq.cli.lake.installation:spark_checks",
    "engine_metrics": "flintmq.metrics.engine:engine_metrics",
    "export": "flintmq.lake.export.export_once:export",
    "export_stream": "flintmq.lake.export.export_stream:export_stream",
    "history": "flintmq.lake.history.history:History",
    "inspect_table": "flintmq.cli.lake.table_content:inspect_table",
    "make_listener": "flintmq.ha.listener:HaListener",
    "partition_value": "flintmq.lake.shape.parquet:partition_value",
    "open_table": "flintmq.lake.table.table_rows:open_table",
    "rebuild_on_spark": "flintmq.cli.lake.spark.rebuild:rebuild_on_spark",
    "stats": "flintmq.lake.stats.run:stats",
    "store_metrics": "flintmq.metrics.stores:store_metrics",
    "table_content": "flintmq.lake.history.table_content:table_content",
    "ui": "flintmq.ui.app:Ui",
    "ui_serve": "flintmq.ui.server:serve",
    "ui_table": "flintmq.ui.export:NamedTable",
}
"""Name of a hook -> its module and the function or class there. Commands are named in `cli/names.py`."""


def load(name: str) -> Any:
    """Return what a hook names.

    Raises:
        ModuleNotFoundError: an optional package that its module needs is not installed.
    """
    module, _, function = HOOKS[name].partition(":")
    return getattr(import_module(module), function)
