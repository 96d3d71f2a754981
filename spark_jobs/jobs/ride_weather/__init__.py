"""Rides with the weather of their start: the job, and which station is near."""
