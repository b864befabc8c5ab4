"""Offers the source in the JVM: a jar (`java/`) that asks Python for plans and rows.

serve       starts with the JVM, and forks for each connection
connection  is one line to the JVM: messages, rows, a heartbeat
answers     answers schemas, plans, rows, and the calls of a stream
catalog     names stores and topics for Spark's catalog
filters     converts the filters that the planner offers
"""

from pathlib import Path

JAR = Path(__file__).parent / "flintmq-door.jar"
"""What `tools/door_jar.py` builds of it; where it is missing the source in Python is used."""
