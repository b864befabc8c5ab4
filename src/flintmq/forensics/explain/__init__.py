"""Explains one file of a store: every byte as a field, a unit or a range, with its meaning.

run            opens a file, finds its kind, returns its lines
file_kinds     finds the kind of a file
lines          makes a line of a field, a unit, or many units
source         holds the open file and one look at it
store_context  looks up the records that units point to
unit_table     explains files of equal units
log            explains commit log files
record_fields  explains one record, field by field
queues         explains consume queues and their extension
index          explains index files
timer          explains the timer store
json_file      explains the JSON of config/
small          explains checkpoint, mark and other small files
"""
