"""Reads a store, or several, as a stream, for Spark and for the export.

reader        plans the micro-batches of one store
members       plans those of several stores
options       checks the options of a stream
queues        follows the queues of the store and their offsets
offset_index  finds a queue's messages in the log by its units
anchor        keeps the last record that was read in the offset
admission     limits a micro-batch
plan          divides a micro-batch into tasks
scan          reads the records of a task
unreached     finds messages in the log to which no queue unit points
"""
