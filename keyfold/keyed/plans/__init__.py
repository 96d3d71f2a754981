"""Plan the batches of a run: what each reads, and its clock."""
