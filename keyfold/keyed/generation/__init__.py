"""Open, compare and replace generations of a job: their records, checkpoint and identity."""
