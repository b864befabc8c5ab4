"""Plans reads and streams, and exports: plan, read, write, publish; all without Spark.

Imports no pyspark. A room imports those above it in this list alone:

bodies   decodes bodies: text, JSON, Avro, Protobuf
files    names and keeps the files and folders of tables
read     plans reads of stores
shape    gives messages the shape of rows
stream   plans the micro-batches of a stream, and reads their tasks
table    publishes exports into tables, and reads what a table has
export   exports messages into tables, once or as a stream
stats    counts a store's traffic, and makes a page of it
history  reads a table together with what is not exported yet; compares the two
"""
