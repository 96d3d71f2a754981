"""The project's streams, keyed jobs and simulators."""
