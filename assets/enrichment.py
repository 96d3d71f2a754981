"""Enrichment: ride points with what an external service says of them. Its runs need the service."""

from assets.keyed_asset import TableDoc, conservation_check, keyed_assets
from assets.stream_columns import STREAM_COLUMNS
from spark_jobs.jobs.batched_enrichment.job import BATCHED_ENRICHMENT
from spark_jobs.streams import RIDE_POINTS

GROUP = "enrichment"
OWNERS = ("team:rides",)
JOBS = (BATCHED_ENRICHMENT,)

_POINT = STREAM_COLUMNS[RIDE_POINTS.name]
_SAME = {name: (name,) for name in RIDE_POINTS.schema.names}

ASSETS = [
    keyed_assets(
        BATCHED_ENRICHMENT,
        group=GROUP,
        owners=OWNERS,
        tables={
            "batched_enrichment": TableDoc(
                BATCHED_ENRICHMENT.description,
                {
                    **_POINT,
                    "enrichment": "What the service says of the event, as JSON",
                    "idempotency_key": "Key of the batch that the event was in: SHA-256 in hexadecimal",
                },
                {**_SAME, "enrichment": tuple(RIDE_POINTS.schema.names), "idempotency_key": RIDE_POINTS.event_id},
            ),
            "batched_enrichment_dead_letters": TableDoc(
                "Events that the service would not have, or that could not be asked about, with its last answer.",
                {
                    **_POINT,
                    "idempotency_key": "Key of the batch that the event was in: SHA-256 in hexadecimal",
                    "attempts": "Calls that it was in",
                    "status": "HTTP status of the last answer; NULL where none came",
                    "answer": "The last answer, or why there was none; at most 1,000 characters",
                    "failed_at": "Processing time at which it was given up (UTC)",
                },
                {**_SAME, "idempotency_key": RIDE_POINTS.event_id},
            ),
            "late.batched_enrichment": TableDoc(
                "Always empty: every event is asked about, however late it comes.",
                {**_POINT, "shard": "Part of the stream that it is buffered with"},
            ),
        },
    ),
]

CHECKS = [conservation_check(BATCHED_ENRICHMENT)]
