"""Counts the traffic of a store on Spark.

job  runs the tasks of `lake/stats/` as Spark tasks
"""
