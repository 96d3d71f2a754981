"""`make demo`: run the project on simulated events and print the results."""
