"""The project's declaration, which Keyfold finds by `[tool.keyfold]` in `pyproject.toml`."""

from keyfold import Project
from keyfold.project import Command

PROJECT = Project(
    streams_at="spark_jobs.streams:STREAMS",
    jobs_at="spark_jobs.jobs.registry:JOBS",
    suites_in="expectations",
    groups_in="assets",
    packages=("spark_jobs",),
    commands={
        "simulate": Command(
            "spark_jobs.simulation.command:simulate",
            "Write files of simulated events: out of order, duplicated, late, malformed, incomplete.",
        ),
        "demo-service": Command(
            "spark_jobs.simulation.enrichment_service:demo_service",
            "Serve the demo service that batched_enrichment calls, until interrupted; then print its statistics.",
        ),
    },
)
