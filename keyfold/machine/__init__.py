"""Tools for processes of one machine: file locks, loopback ports, and files that only their user can read."""
