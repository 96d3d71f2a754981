"""What the assets of a job show of it again."""

from typing import Any

import dagster as dg

from keyfold.dagster.assets import keyed_asset
from keyfold.dagster.assets.keyed_asset import JobAssets, keyed_assets
from keyfold.dagster.resources import Keyfold
from keyfold.dagster.translator import DEFAULT
from tests.keyfold.keyed.test_jobs_on_jobs import HOURLY, Site


def test_a_run_without_news_shows_what_was_drawn_and_draws_nothing(tmp_path, monkeypatch):
    drawn = list[str]()

    def draw(lakehouse, job):
        drawn.append(job)
        return {"plot": dg.MetadataValue.text(f"figure {len(drawn)}")}

    monkeypatch.setattr(keyed_asset, "plot_runs", draw)
    site = Site(tmp_path)
    assets = [keyed_assets(JobAssets(HOURLY))]
    resources = {"keyfold": Keyfold(site.lakehouse, site.spark)}
    seen = []
    with dg.DagsterInstance.ephemeral() as instance:
        for clicks in ([("ann", 0), ("bob", 70), ("ann", 200)], [], [("bob", 300)], []):
            if clicks:
                site.click(*clicks)
            result = dg.materialize(assets, instance=instance, resources=resources)
            (made,) = [
                one
                for one in result.asset_materializations_for_node("hourly")
                if one.asset_key == DEFAULT.get_asset_key("hourly")
            ]
            told: dict[str, Any] = {name: value.value for name, value in made.metadata.items()}
            seen.append((told["plot"], told["events_in"], "open_state" in told, len(told["preview"].records)))
    assert [one[:3] for one in seen] == [
        ("figure 1", 3, True),
        ("figure 1", 0, True),
        ("figure 2", 1, True),
        ("figure 2", 0, True),
    ]
    assert seen[0][3] == seen[1][3] < seen[2][3] == seen[3][3]
