"""Measures the traffic of a store: statistics, and one page of HTML.

job         counts a store's traffic
accumulate  counts one task's batches into a summary
sketches    summarises a stream of values in bounded memory
statistics  makes statistics and a verdict from a summary
lag         computes the lag of consumer groups
page        writes the page
svg         draws plots as inline SVG
"""
