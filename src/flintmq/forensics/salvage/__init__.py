"""Salvage: into a new store, or in place.

into       writes every record that counts into a new store
records    makes one record anew for another place
queues     maps old queue offsets to new ones
config     carries over what still holds of config/
in_place   plans and makes the least change to a store
derived    replaces queues and index that do not hold
journal    journals changes, so that they can be finished or undone
filler     makes filler records over damaged ranges
misplaced  finds records whose queue offset cannot be
holes      fills the queue offsets of lost messages
"""
