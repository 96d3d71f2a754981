"""What starts runs: sensors, schedules and conditions."""
