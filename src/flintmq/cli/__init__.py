"""The command line: one file per command, an output that prints, and `app.main`.

commands  flintmq NAME, one file a command
lake      the commands of the lake
live      the commands of what is live

app             the command `flintmq`: its exit codes and error lines
names           names the commands, in the order of the help, without loading one
parser          parses command lines by the declarations of commands, and runs them
completion      completes command lines by the Tab key
help_topics     holds the texts of `flintmq help`
declare         declares arguments and options of commands
options         arguments and options that several commands share
values          parses the values of options: times, sizes, places, tags
output          prints: a console for people, or JSON for programs
terminal        draws for a terminal: colours, tables, the progress bar
text            formats values for a terminal
answers         prints rows of answers about single messages, and what they lack
incomplete      says on stderr that an answer may lack messages
signals         ends a command early at a signal
reader_gone     notices that the reader of our output has gone
template        formats messages by the user's own template
message_lines   formats a message as one line
json_value      converts values of Arrow for JSON
body_option     returns the body as stored, decompressed or decoded
sql_output      formats the rows of an answer in SQL
installation    finds out the state of this installation
"""
