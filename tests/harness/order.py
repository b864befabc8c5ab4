"""The order of test files with several workers: the longest first, so that no worker ends long after another.

By itself pytest-xdist hands out the files with the most tests first. Ours that take longest have few: each starts Java
or other processes, so they came last, one worker busy with them and the other idle. In the list those that compute, on
Spark, and those that mostly wait, beside RocketMQ, stand by turns. Files that are not in the list come behind those
that are, the most tests first; a wrong place costs time, nothing else.
"""

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LONGEST_FIRST = (
    "test_docs.py",
    "interop/test_broker_java.py",
    "spark/test_session.py",
    "interop/test_replication_java.py",
    "spark/test_cluster.py",
    "interop/test_sizes_java.py",
    "robustness/matrix/test_matrix.py",
    "robustness/torture_spark/test_loop.py",
    "robustness/torture_spark/test_cluster.py",
    "robustness/soak/test_machine.py",
    "interop/test_broker_metadata_java.py",
    "spark/jobs/export/test_stream.py",
    "interop/test_differential_java.py",
    "spark/jobs/dispatch/test_kills.py",
    "interop/test_kinds_java.py",
    "cli/test_docs.py",
    "interop/test_copy_java.py",
    "spark/stream/test_on_spark.py",
    "interop/test_salvage_java.py",
    "spark/stream/test_live_java.py",
    "interop/test_retention_java.py",
    "cli/lake/spark/test_diff.py",
    "spark/jobs/replay/test_bulk.py",
    "interop/test_copied_ends_java.py",
    "interop/test_engine_java.py",
    "spark/stream/test_followed.py",
    "spark/jobs/dispatch/test_job.py",
    "interop/test_dispatch_java.py",
    "spark/jobs/replay/test_job.py",
    "interop/test_damaged_java.py",
    "spark/jobs/export/test_job.py",
    "interop/test_runbooks_java.py",
    "robustness/bucket_kills/test_kills.py",
    "spark/sink/test_writer.py",
    "interop/test_replay_java.py",
    "spark/stream/test_queues.py",
    "interop/test_tail_java.py",
    "spark/stream/test_reader.py",
    "robustness/soak/test_run.py",
    "examples/test_demo.py",
    "spark/test_source.py",
    "robustness/crash/test_leaks.py",
    "robustness/failing_calls/test_any_call.py",
    "spark/jobs/test_verify.py",
    "sim/test_explorer.py",
    "spark/stream/test_kafka_micro_batch.py",
    "sim/test_faults.py",
    "store/test_reentry.py",
    "testing/test_pytest_plugin.py",
    "robustness/mutants/test_mutants.py",
    "robustness/hostile/test_special.py",
    "forensics/salvage/test_in_place.py",
    "test_install.py",
)
_PLACES = {ROOT / name: place for place, name in enumerate(LONGEST_FIRST)}


def with_several_workers(config: pytest.Config) -> None:
    """Have pytest-xdist hand out files in the order in which they were collected."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def sort(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests in this order where several workers share them; within a file they stay as they are."""
    if hasattr(config, "workerinput"):
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: (_PLACES.get(item.path, len(_PLACES)), -tests[item.path]))
