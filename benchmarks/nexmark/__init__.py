"""Nexmark, the auction benchmark, on Keyfold: beside Flink and stock Spark, its answers held to DuckDB's. `make nexmark`."""
