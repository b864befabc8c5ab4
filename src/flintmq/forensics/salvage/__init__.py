"""Salvages damaged stores, into a new store or in place.

into       writes every intact record into a new store
records    rewrites one record for another place
queues     maps old queue offsets to new ones
config     carries over the usable parts of config/
in_place   plans and makes the least change to a store
derived    replaces damaged queues, index and small files
journal    journals changes, so that they can be finished or undone
filler     makes filler records over damaged ranges
holes      fills the queue offsets of lost messages
"""
