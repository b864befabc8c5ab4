"""Kernels: hot loops over plain buffers, in Cython's pure-Python mode.

Rules of this folder: a kernel takes buffers, integers and output arrays, never objects of the store. It releases the
GIL. Every length from a file is compared with the bytes at hand before it is used. Each `.py` also runs uncompiled
(slower); the `.pxd` beside it declares the C types, the `.pyi` the Python ones.

encode           encodes messages into a commit log, record after record
encode_one       encodes one message into a mapped log file
fast_append      appends a plain message in one call; holds the state of appends
append_columns   appends messages given as columns
ring             keeps a log's newest bytes in memory, and writes them to its files
unique_keys      numbers unique keys and writes them
message          defines Message and PutResult
walk             validates records one after another, and finds the next one
derive           makes queue units and index keys from records
group_units      groups units by queue into runs
index_insert     inserts keys into slots and items of an index file
index_check      checks items and chains of an index file
record_parts     locates the parts of a validated record
property_shapes  splits property strings by comparing them with earlier ones
select           selects the records that match a query
gather           gathers columns of records into Arrow memory
gather_fill      fills single columns: numbers, times, hosts, text, properties
gather_views     fills columns with views of the records and codes of dictionaries
zone_keys        sums up zones of a log for zone maps; finds the records that have a key
odd_text         finds text that is not UTF-8
fetch            checks and fetches the records of a queue for a get
fast_get         answers a plain get in one call; holds the kept units of a running queue
handoff          hands work to a waiting thread without the GIL
flusher          syncs the log for groups of puts in a thread without the GIL
loop_puts        answers the puts that an event loop awaits, from the disk or from replicas
replica_lane     sends a put's record to a follower and waits for its report, without the GIL
call_stack       looks for frames of the engine in the call stack
only_file        reads the only file of a directory
buffers          names the types of arrays that kernels take; not a kernel itself
"""

from flintmq.kernels import _select
from flintmq.kernels._select import compiled

__all__ = ["compiled"]

_select.install()
