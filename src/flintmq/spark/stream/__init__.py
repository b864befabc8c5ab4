"""Reading a store as a stream: `spark.readStream.format("flintmq")`.

reader        is what Spark calls, in the planner and in tasks
options       checks the options of a stream
queues        tells which queues the store has now
offset_index  finds a queue's messages in the log by its units
anchor        keeps the last record that was read in the offset
admission     limits a micro-batch
plan          shares a micro-batch out to tasks
task_reads    chooses what a task reads of its range
scan          reads the records of a task
unreached     finds messages that the log has and no queue leads to
"""
