"""Offline tools over a store: inspect, verify, explain, rebuild, copy, salvage.

They read damaged stores, and the engine in store/ never imports them.

verify     checks everything in a store against everything else
diff       compares two stores
salvage    recovers the intact messages of a damaged store, into a new store or in place
explain    describes one file, byte by byte
answers    tells what became of each message

inspect         summarizes a store's content without reading all of it
rebuild         rebuilds queues and index from the log
copy            copies a store, also a live one, whole or in part
store_upload    publishes a copy on object storage
retention_plan  lists what retention would delete
topic_tail      reads the end of a topic
group_offsets   lists how far groups have consumed queues
offset_changes  moves committed offsets in a store that nobody writes
offset_file     keeps committed offsets in a file

store_figures    the figures of one store, kept from look to look
cluster_figures  topics and groups summed over stores
"""
