"""Explain one file of a store: every byte, as a field, a unit or a range, with its meaning.

run        what is called: opens the file, finds its kind, gives the lines
kinds      which kinds of file there are, and which one a file is
lines      what a line is; fields of a layout as lines
source     the open file; one look at it
around     the store that the file lies in: where units lead
table      files of equal units: an overview, or one unit
log, queues, index, timer, small, json_file    the kinds
"""
