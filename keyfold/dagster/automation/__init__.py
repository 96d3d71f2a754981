"""Start runs and maintain tables: sensors, schedules, automation conditions, maintenance."""
