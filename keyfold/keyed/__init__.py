"""The engine of keyed jobs: declare a job (`job`), run it (`job_run`, `execution`), and count what went in and out (`conservation`)."""
