"""Holds the jobs over ranges of a log. Tasks read and write files; the driver gets counts.

export    writes messages to Parquet, Delta or Iceberg, once or continuously
replay    puts messages into a store
dispatch  keeps queues and index of a log current
stats     counts a store's traffic, and makes a page of it

rebuild   rebuilds queues and index, as Spark tasks
verify    verifies a store, as Spark tasks
diff      compares two stores, as Spark tasks
trace     tells what became of every message, as a DataFrame
staged    stores units and keys between the two stages of a job
tasks     runs a function over items as tasks, and returns small answers
"""
