"""`python -m benchmarks`."""

from benchmarks.ride_summaries import main

main()
