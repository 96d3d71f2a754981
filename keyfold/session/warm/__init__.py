"""A warm Spark: a long-running Java process with a Spark context, to which runs attach.

A cold run spends most of its time starting Java, loading Spark and Delta, and compiling hot code. A run that attaches skips
all that. It is a normal driver (py4j, with its own gateway server and session), so all of Keyfold works as in a cold run.

The server listens on loopback, and writes its port and secret to a file that only its user can read. Spark starts new Python
workers after code has changed, since each run passes a digest of its code to its workers.
"""
