"""Generations of a job: their journal, checkpoint and identity."""
