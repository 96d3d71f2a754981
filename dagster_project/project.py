"""The project's declaration, which Keyfold finds by `[tool.keyfold]` in `pyproject.toml`."""

from keyfold import Project

PROJECT = Project(
    streams_at="spark_jobs.streams:STREAMS",
    jobs_at="spark_jobs.jobs.registry:JOBS",
    suites_in="expectations",
    groups_in="assets",
    packages=("spark_jobs",),
    commands={
        "simulate": "spark_jobs.simulation.command:simulate",
        "demo-service": "spark_jobs.simulation.enrichment_service:demo_service",
    },
)
