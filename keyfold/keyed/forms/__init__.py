"""Canonical forms of what a job declares: values, expressions and code, as JSON that any version of Polars and Python gives alike."""
