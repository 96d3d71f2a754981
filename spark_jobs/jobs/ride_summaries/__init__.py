"""Ride summaries: the job, and how a ride's points become stretches of it."""
