"""Reads a table together with what is not exported yet; compares the two.

history         reads a table and what is not exported yet as one frame
history_stream  streams a table, then its stores
diff_table      compares stores with the table of their exports
table_content   tells what a table holds, and how much of its stores it lacks
"""
