"""Kernels of threads that work beside puts, without the GIL.

handoff       hands work to a waiting thread without the GIL
ring          keeps a log's newest bytes in memory, and writes them to its files
flusher       syncs the log for groups of puts in a thread without the GIL
loop_puts     answers the puts that an event loop awaits, from the disk or from replicas
replica_lane  sends a put's record to a follower and waits for its report, without the GIL
"""
