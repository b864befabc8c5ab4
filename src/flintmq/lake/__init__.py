"""What an export to files or tables needs no Spark for: plan, read, write, publish.

Imports no pyspark, but for the schema of JSON bodies (`json_bodies`), which is Spark's.

options      checks the options of a read
offsets      reads queue offsets from JSON
asked        compares what is asked for with what the store has
scan_bounds  finds where in the log single queues begin and end
splits       cuts a log into ranges at record starts
scan         plans a read, and scans one range of it into batches
explode      makes rows of the messages of inner batches
columns      shapes the columns of an export: properties, bodies
json_bodies  reads bodies as JSON of a schema
parquet      writes batches as Parquet files
compact      combines small files up to a size
target       publishes an export's files with a manifest
delta        publishes into a Delta table
checkpoint   keeps a copy of where an export is
export       goes on from the last export: begins, writes, publishes
"""
