"""The command line: one file per command, an output that prints, and `app.main`, which owns the exit codes.

app             is the command `flintmq`: its commands, and what becomes of errors
commands        holds what all commands have in common besides options
options         holds arguments and options that several commands share
output          prints: a console for people, or JSON for programs
text            makes a value text for a terminal
signals         ends a command early at a signal
template        makes lines of the user's own shape
message_lines   makes a line of a message
body_option     gives the body as stored or decompressed
sql_output      prints rows of an answer in SQL
installation    finds out what this installation can do
docs            writes docs/operations/cli.md
copy            flintmq copy
doctor          flintmq doctor
explain         flintmq explain
get             flintmq get
inspect         flintmq inspect
put             flintmq put
query           flintmq query
rebuild         flintmq rebuild
recover         flintmq recover
retention       flintmq retention
salvage         flintmq salvage
scan            flintmq scan
spark           flintmq spark: the group, verify and rebuild
spark_dispatch  flintmq spark dispatch
spark_export    flintmq spark export
spark_job       opens the Spark session of a command
spark_replay    flintmq spark replay
spark_sink      flintmq spark sink
spark_stats     flintmq spark stats
sql             flintmq sql
tail            flintmq tail
verify          flintmq verify
"""
