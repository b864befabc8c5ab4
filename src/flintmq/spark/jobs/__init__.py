"""Jobs over ranges of a log: rebuild, verify, export. Tasks read and write files; the driver sees counts."""
