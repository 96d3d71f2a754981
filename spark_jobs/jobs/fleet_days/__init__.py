"""Sum kilometres, trips, idle time and fuel per vehicle and day."""
