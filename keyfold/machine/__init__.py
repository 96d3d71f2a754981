"""What processes on one machine share: file locks, loopback ports, and files that only their user can read."""
