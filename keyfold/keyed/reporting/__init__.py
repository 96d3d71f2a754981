"""What the journals say of runs: statistics, written rows, conservation."""
