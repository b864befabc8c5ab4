"""The command line: one file per command, an output that prints, and `app.main`, which owns the exit codes."""
