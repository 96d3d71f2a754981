"""`make demo` and `make faults`: everything once, on simulated events, and what came of it."""
