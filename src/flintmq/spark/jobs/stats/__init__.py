"""Statistics of a store: figures, and one page of HTML.

job         counts a store's traffic
accumulate  counts one task's batches into a summary
sketches    summarises a stream of values in bounded memory
statistics  makes figures and a verdict of a summary
lag         tells how far consumer groups are behind
page        writes the page
svg         draws plots as inline SVG
"""
