"""Moving averages: the job, its tables, and how readings take their place in windows."""
