"""Kernels that read: records of a log, queue units, items of an index.

walk             validates records one after another, and finds the next one
derive           makes queue units and index keys from records
group_units      groups units by queue into runs
index_check      checks items and chains of an index file
record_parts     locates the parts of a validated record
property_shapes  splits property strings by comparing them with earlier ones
select           selects the records that match a query
gather           gathers columns of records into Arrow memory
gather_fill      fills single columns: numbers, times, hosts, text, properties
gather_views     fills columns with views of the records and codes of dictionaries
json_line        writes a record as a line of JSON
column_kinds     names the kind of each column for gather and json_line
zone_keys        sums up zones of a log for zone maps; finds the records that have a key, and texts; hashes texts
odd_text         finds text that is not UTF-8
fetch            checks and fetches the records of a queue for a get
"""
