"""The log as bytes: its files, the walk from record to record, and its end.

files        lists the log's files as one sequence of bytes
walk         walks records in pieces, and judges each stop
sources      supplies a walk with bytes, by pread or mapped
arrivals     leaves out a last record whose bytes are not all there
resync       finds the next valid record after a bad position
end_of_log   decides what it means that a walk stopped, by one table
queue_evidence  finds units of queues beyond the files, and the unit of a queue offset
former_life  looks for proof that the records after a stop are stale
log_end      finds the log's end by reading only its last file
start_records  finds records that a start of RocketMQ cannot bear
anchor       names a record by which a later run knows the log again
records      reads one record again and checks it in full
report       collects damage and notes of a walk
snapshot     captures a log at one moment
own_log      reads the newest records of a running store through its maps
bulk_writer  writes log files of full size before anybody reads them
predicate    selects the records of a scan
pushdown     narrows a predicate by an engine's comparisons
zones        lets a walk skip zones that hold nothing wanted
zone_maps    keeps the maps of zones in the user's cache
"""
