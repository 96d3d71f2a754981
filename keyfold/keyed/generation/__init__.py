"""Open, compare and replace generations of a job: their records, manifests and identity."""
