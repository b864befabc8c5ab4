"""The log as bytes: its files, the walk from record to record, and where it ends.

files        lists the log's files as one sequence of bytes
walk         walks records in pieces, and judges where it stops
sources      gives a walk its bytes: by pread or mapped
resync       finds the next record after a place that holds none
late_begin   finds where to look for the end of a log that is far away
end_of_log   judges where a log ends, by one table
records      reads one record again and checks it in full
report       collects the damage and notes of a walk
snapshot     takes a log as it is at one moment
own_log      reads the newest records of the own log through its maps
bulk_writer  writes log files of full size that nobody reads yet
predicate    says which records a scan gives
pushdown     narrows a predicate by an engine's comparisons
"""
