"""A source of Spark in the JVM (`java/`), which asks a Python process for plans and for rows (`serve`)."""

from pathlib import Path

JAR = Path(__file__).parent / "flintmq-door.jar"
"""What `tools/door_jar.py` builds of it; where it is missing the source in Python is used."""
