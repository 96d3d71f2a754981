"""HTTP calls to external services, for jobs and alerts: with one time limit per call, and only to checked addresses."""
