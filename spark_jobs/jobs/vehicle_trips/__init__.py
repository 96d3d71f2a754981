"""Vehicle trips: the job, and how readings become trips and stops."""
