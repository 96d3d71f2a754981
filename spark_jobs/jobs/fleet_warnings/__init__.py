"""Warnings of vehicles: low fuel, an engine too hot, a geofence entered or left."""
