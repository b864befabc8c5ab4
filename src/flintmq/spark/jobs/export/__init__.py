"""Exports messages to tables by Spark: `job`. Parts without Spark are in `flintmq.lake`."""
