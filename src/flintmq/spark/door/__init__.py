"""A source of Spark in the JVM (`java/`), which asks a Python process for plans and for rows (`serve`)."""
