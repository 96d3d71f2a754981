"""A warm Spark: one Java process that stays, with its Spark context, for runs that come and go.

A cold run spends most of its time on Java: starting it, loading Spark and Delta, compiling what is hot. A run that
attaches finds all that done. It is a driver like any other (the same py4j, a gateway server and a session of its own),
so that all of Keyfold works as it does cold; Spark Connect would run the sinks in a process on the other side.

The server writes where it listens, and the secret to get in, to a file that its user alone can read; it listens on
loopback. Workers of changed code are new ones: each attached run tells its workers the state of the code.
"""
