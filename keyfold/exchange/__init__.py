"""HTTP calls to external services, for jobs: with one time limit per call, and only to checked addresses."""
