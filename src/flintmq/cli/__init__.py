"""The command line: one file per command, an output that prints, and `app.main`.

app             the command `flintmq`: its commands, its exit codes and error lines
commands        the base of all commands: clamped numbers, needed packages, usage lines
options         arguments and options that several commands share
values          parses the values of options: times, sizes, places, tags
output          prints: a console for people, or JSON for programs
text            formats values for a terminal
signals         ends a command early at a signal
template        formats messages by the user's own template
message_lines   formats a message as one line
body_option     returns the body as stored or decompressed
sql_output      formats the rows of an answer in SQL
installation    finds out the state of this installation
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
