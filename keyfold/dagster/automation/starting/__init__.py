"""Start runs: sensors, schedules and automation conditions."""
