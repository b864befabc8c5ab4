"""Several stores as one: finds those that a list, a pattern or a manifest names.

member    names one store among several
members   finds the stores that a user names
pattern   finds the stores that a pattern names
manifest  reads a manifest of stores
same_log  keeps one of a master and its slaves
"""
