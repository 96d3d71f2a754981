"""Convert rows of state: to and from lines of JSON, by key, and to other types exactly."""
