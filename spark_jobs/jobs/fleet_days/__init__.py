"""Days of vehicles: kilometres, trips, idle time and fuel, a row a vehicle and day."""
