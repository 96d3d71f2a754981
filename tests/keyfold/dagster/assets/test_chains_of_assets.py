"""What the assets of a job show of it again."""

from typing import Any

import dagster as dg

from keyfold.dagster.assets import keyed_asset
from keyfold.dagster.assets.keyed_asset import keyed_assets
from keyfold.dagster.assets.shown import JobAssets
from keyfold.dagster.resources import Keyfold
from tests.chained_jobs import HOURLY, Chain


def test_a_run_that_writes_no_row_is_an_observation_and_draws_nothing(tmp_path, monkeypatch):
    drawn = list[str]()

    def draw(lakehouse, job):
        drawn.append(job)
        return {"plot": dg.MetadataValue.text(f"figure {len(drawn)}")}

    monkeypatch.setattr(keyed_asset, "plot_runs", draw)
    site = Chain(tmp_path)
    assets = [keyed_assets(JobAssets(HOURLY))]
    resources = {"keyfold": Keyfold(site.lakehouse, site.spark)}
    seen = []
    with dg.DagsterInstance.ephemeral() as instance:
        for clicks in ([("ann", 0), ("bob", 70), ("ann", 200)], [], [("bob", 300)], []):
            if clicks:
                site.click(*clicks)
            result = dg.materialize(assets, instance=instance, resources=resources)
            materialized = result.asset_materializations_for_node("hourly")
            observed = [
                event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()
            ]
            (report,) = [*materialized, *observed]
            metadata: dict[str, Any] = {name: value.value for name, value in report.metadata.items()}
            seen.append((bool(materialized), metadata.get("plot"), metadata["events_in"], "open_state" in metadata))
    assert seen == [
        (True, "figure 1", 3, True),
        (False, None, 0, False),
        (True, "figure 2", 1, True),
        (False, None, 0, False),
    ]
