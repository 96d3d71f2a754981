"""Runs in processes of their own: assets that need Spark, launched by spark-submit and reported back by Dagster Pipes.

`KEYFOLD_RUNS=spark-submit` asks for it (`setting`). `twins` makes, of each asset that needs Spark and of its checks that do, one step
of the same name that launches a process; `launching` is that step's side, `child` the process's, `messages` what goes
between them. The process executes the very definitions that the run would execute else: nothing is computed in two ways.
"""
