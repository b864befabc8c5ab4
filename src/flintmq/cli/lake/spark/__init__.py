"""The jobs on Spark, one a file: `flintmq spark NAME`.

diff      compare a store with the table of its exports
dispatch  keep queues and index of a log current with Spark
export    messages to Parquet, Delta or Iceberg, once or as a stream
rebuild   queues and index from the log, also for flintmq rebuild
replay    messages from a store, Delta or Parquet into a store
sink      lists the queries and replays that put into a store
stats     a store's traffic as figures and as a page
trace     what became of every message, as a table
verify    checks everything in a store, with many workers
"""
