"""Compute moving averages: the job, its tables, and its windows."""
