"""`keyfold demo-service`: an HTTP service for `batched_enrichment` to call."""

import os
import sys
from typing import Annotated

import typer

from keyfold.cli.options import AsJson
from keyfold.cli.terminal import failures, report, stop_on_signal
from spark_jobs.simulation.enrichment_service.server import DemoService, ServiceSettings

TOKEN_VARIABLE = "KEYFOLD_DEMO_TOKEN"  # noqa: S105 - a name, not a token
"""Environment variable with the bearer token of calls; if it is not set, calls need no token."""


def demo_service(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")] = 8077,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    failure_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of calls, and of events, that fail and may be tried again.")
    ] = 0,
    reject_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of events that are refused, the same ones each time.")
    ] = 0,
    latency: Annotated[float, typer.Option(min=0, help="Seconds that a call takes at least.")] = 0,
    seed: Annotated[int, typer.Option(help="Same seed, same failures.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Serve the demo service that batched_enrichment calls, until interrupted; then print its statistics."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    settings = ServiceSettings(host, port, failure_rate, reject_rate, latency, seed, token)
    with failures():
        stop = stop_on_signal()
        with DemoService(settings) as service:
            report({"service": service.url}, as_json, f"{service.url} accepts events; Ctrl-C ends it")
            sys.stdout.flush()
            stop.wait()
        stats = service.stats()
        text = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in stats.items())
        report(stats, as_json, text)
