"""What starts runs, and what tells people of them: sensors, schedules, conditions, alerts, maintenance."""
