"""Replays messages from a store, Delta or Parquet into a store.

job           replays into a new or existing store
source        cuts a source into chunks
plan          counts chunks, and gives each its place in the new log
rows          encodes rows as records
refusals      finds rows that a store would refuse
tasks         runs a function over the rows of parts
bulk          writes complete files of a new log
live          puts in order into an existing store
carried       carries the offsets of groups over
exactly_once  puts messages exactly once, whatever crashes
"""
