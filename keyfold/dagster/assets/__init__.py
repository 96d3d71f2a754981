"""The assets of streams and keyed jobs."""
