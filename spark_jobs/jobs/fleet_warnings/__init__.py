"""Warn of low fuel, hot engines, and geofences entered or left."""
