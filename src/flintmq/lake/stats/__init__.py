"""Measures the traffic of a store: statistics, and one page of HTML.

run         counts a store's traffic, on threads or on Spark
accumulate  counts one task's batches into a summary
sketches    summarises a stream of values in bounded memory
hashes      hashes texts, all of an array at once
statistics  makes statistics and a verdict from a summary
lag         computes the lag of consumer groups
compare     says what changed since an earlier count
commands    names the command that shows a figure
page        writes the page
svg         draws plots as inline SVG
"""
