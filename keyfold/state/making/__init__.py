"""Make the state of a job from a table."""
