"""Summarise rides: the job, and the stretches that a ride's points are joined to."""
