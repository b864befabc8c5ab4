"""Jobs over ranges of a log. Tasks read and write files; the driver sees counts.

export     messages to Parquet or Delta, once or as they come
replay     messages into a store
dispatch   queues and index of a log kept current
stats      figures and a page about a store's traffic

rebuild  makes queues and index anew, as Spark tasks
verify   verifies a store, as Spark tasks
staged   keeps what the first stage of a job leaves for the second
tasks    runs a function over items as tasks, brings small answers back
"""
