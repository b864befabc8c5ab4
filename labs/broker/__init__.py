"""Parts of the programs that try `flintmq broker` for long (labs/broker_*.py), and the figures of their runs."""
