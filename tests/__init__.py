"""Tests of FlintMQ: they mirror src/flintmq, file by file. `tests.compat.stores` opens the golden stores."""
