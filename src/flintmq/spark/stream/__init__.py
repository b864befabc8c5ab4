"""Reads a store as a stream: `spark.readStream.format("flintmq")`.

reader        implements Spark's interface, in the planner and in tasks
options       checks the options of a stream
queues        follows the queues of the store and their offsets
offset_index  finds a queue's messages in the log by its units
anchor        keeps the last record that was read in the offset
admission     limits a micro-batch
plan          divides a micro-batch into tasks
task_reads    chooses which parts of its range a task reads
scan          reads the records of a task
unreached     finds messages in the log to which no queue unit points
"""
