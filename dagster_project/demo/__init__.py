"""`make demo` and `make faults`: run the project on simulated events and print the results."""
