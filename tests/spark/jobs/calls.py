"""Tasks of Spark as calls of this process."""

import json


def tasks_as_calls(monkeypatch, cores=2):
    """Each task is done twice, as an attempt may be; what it tells travels as JSON."""

    def run_tasks(spark, task, items, progress=None):
        return [json.loads(json.dumps([task(item) for _ in range(2)][1])) for item in items]

    monkeypatch.setattr("flintmq.spark.jobs.tasks.run_tasks", run_tasks)
    monkeypatch.setattr("flintmq.spark.jobs.tasks.parallelism", lambda spark: cores)
