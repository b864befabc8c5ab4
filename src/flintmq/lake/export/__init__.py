"""Exports messages into tables, once or as a stream.

choices        declares the keywords of an export
export         continues after the last export: begins, writes, publishes
export_once    exports what is new
export_stream  exports what is new, and goes on
compact        combines small files up to a target size
upsert         merges changes into a table that has the last row of each key
checkpoint     keeps a copy of the progress of an export
workers        runs the tasks of an export
"""
