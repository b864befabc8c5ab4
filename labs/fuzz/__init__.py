"""Fuzzing: a target for each parser, seeds from files that Java wrote, a mutator, and a short run in `make test`."""
