"""A process that stands by: it has loaded all of Dagster's definitions and waits for one run.

Dagster starts a process for every run, which spends its first seconds on imports (Dagster, Great Expectations, Spark's
Python side). With `launcher.StandbyRunLauncher` in dagster.yaml a run is handed to a process that has them behind it;
where none is ready (the first run, two runs at once, changed code) it is started as Dagster starts it. It is an ordinary
process with no fork of a used one: a fork would copy the locks of Polars' and Arrow's threads, but not the threads.
"""
