"""Run assets that need Spark in child processes, launched by spark-submit and reported back by Dagster Pipes.

`KEYFOLD_RUNS=spark-submit` enables this (`setting`). `spark_steps` replaces each asset that needs Spark, together with its
checks, by one step of the same name that launches a process. `launching` is the step's side, `child` the process's, which
executes the same definitions that a run without this setting executes.
"""
