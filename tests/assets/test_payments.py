"""The payments through Dagster: every payment accounted for, no card shown or drawn."""

import re
from typing import Any

import dagster as dg
import polars as pl

from keyfold.dagster import JobAssets, Keyfold, keyfold_assets
from keyfold.privacy import MASK
from keyfold.project import project_suites
from keyfold.runners import Runners
from spark_jobs.jobs.card_in_two_cities import CARD_IN_TWO_CITIES
from spark_jobs.streams import PAYMENTS
from tests.folders import simulate_into


def plot(_: Any) -> dict[str, dg.MetadataValue]:
    return {"keys and values": dg.MetadataValue.text("data:image/png")}


ASSETS = keyfold_assets(streams=[PAYMENTS], jobs=[JobAssets(CARD_IN_TWO_CITIES, plot=plot)], suites=project_suites())


def test_every_payment_is_accounted_for_and_no_card_shown(lakehouse):
    made = simulate_into(lakehouse.landing("payments"), "payments", size=100, seed=1, files=4)
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            ASSETS,
            instance=instance,
            resources={"keyfold": Keyfold(lakehouse, Runners("local"))},
            run_config={
                "ops": {
                    "ingest_payments": {"config": {"settle_seconds": 0}},
                    "card_in_two_cities": {"config": {"advance_to": made.end.isoformat()}},
                }
            },
        )
    checks = result.get_asset_check_evaluations()
    assert {check.asset_key.to_user_string() for check in checks} == {"card_in_two_cities", "payments_events"}
    (conserved,) = (check for check in checks if check.check_name == "no_event_is_lost")
    assert re.fullmatch(r"(1,\d{3}) events of payments read = \1 that reached the step", conserved.description or "")
    # One of the simulated archives is cut short.
    assert [check.check_name for check in checks if not check.passed] == ["few_rows_are_quarantined"]
    matches = pl.read_delta(str(lakehouse.table("card_in_two_cities")))
    assert matches.height >= 4, "a card of twenty-five is copied"
    told = {
        one.asset_key.to_user_string(): {name: value.value for name, value in one.metadata.items()}
        for one in result.asset_materializations_for_node("card_in_two_cities")
    }
    # One batch has no course to draw.
    assert not any("data:image/png" in str(value) for value in told["card_in_two_cities"].values())
    assert MASK in str(told["card_in_two_cities"]["preview"])
    assert not any(card in str(told) for card in matches["card"].unique())
