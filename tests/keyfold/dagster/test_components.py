"""A stream and a job that are YAML alone: found, scaffolded, loaded and run in somebody's project."""

from pathlib import Path

import dagster as dg
import polars as pl
import pytest
import yaml

from keyfold.dagster import components
from keyfold.errors import KeyfoldError
from tests.keyfold.dagster.guest import PROJECT, run_in

STREAM = """
type: keyfold.dagster.components.Stream
attributes:
  name: orders
  group: shop
  columns:
    - {name: shop, type: string, required: true}
    - {name: at, type: timestamp, required: true}
    - {name: cents, type: int64, description: Its price}
  event_time: at
"""

JOB = """
type: shop.mine.Tagged
attributes:
  name: orders_per_hour
  group: shop
  owners: [team:shop]
  stream: orders
  operator: windows
  key: shop
  aggregates:
    orders: count
    cents: sum(cents)
    expensive: count(cents >= 200)
    Most: max(cents * 2)
  arguments: {length: 1h}
  delay: 5m
  checks:
    cents_are_positive:
      type: expect_column_values_to_be_between
      kwargs: {column: cents, min_value: 500}
      severity: warning
      description: Shops sell.
  freshness: {fail: 3h, warn: 2h}
"""

MINE = """
import dagster as dg
from keyfold.dagster import KeyfoldResource
from keyfold.dagster.components import KeyedJob

class Tagged(KeyedJob):
    def get_asset_spec(self, spec):
        return super().get_asset_spec(spec).merge_attributes(tags={"domain": "sales"})

@dg.definitions
def resources():
    return dg.Definitions(resources={"keyfold": KeyfoldResource("lake", "local")}, executor=dg.in_process_executor)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "dagster").mkdir()
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    for name, text in {
        "shop/__init__.py": "",
        "shop/mine.py": MINE,
        "shop/definitions.py": "from pathlib import Path\nimport dagster as dg\n\n"
        "defs = dg.load_from_defs_folder(path_within_project=Path(__file__))\n",
        "shop/defs/__init__.py": "",
        "shop/defs/resources.py": "from shop.mine import resources\n",
        "shop/defs/orders/defs.yaml": STREAM,
        "shop/defs/orders_per_hour/defs.yaml": JOB,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.long
def test_the_types_are_listed_and_scaffolded_and_one_of_yaml_alone_runs_with_its_checks_and_its_freshness(project):
    # In one process: the command imports Dagster and all types each time.
    listed = run_in(
        project,
        """python -c '
from dagster_dg_cli.cli import cli
cli(["list", "components", "--json"], standalone_mode=False)
for kind, name in (("Stream", "clicks"), ("KeyedJob", "clicks_per_hour")):
    cli(["scaffold", "defs", f"keyfold.dagster.components.{kind}", name], standalone_mode=False)
'""",
    )
    for kind in ("Stream", "KeyedJob"):
        assert f"keyfold.dagster.components.{kind}" in listed
    job = project / "shop" / "defs" / "clicks_per_hour" / "defs.yaml"
    job.write_text(job.read_text().replace("STREAM", "clicks"))
    assert yaml.safe_load(job.read_text())["attributes"]["name"] == "clicks_per_hour"
    landing = project / "lake" / "landing" / "orders"
    landing.mkdir(parents=True)
    rows = [("10:00", 100), ("10:30", 300), ("12:00", 1)]
    lines = (f'{{"shop": "Oslo", "at": "2026-01-01T{at}:00Z", "cents": {cents}}}\n' for at, cents in rows)
    (landing / "a.ndjson").write_text("".join(lines))
    run_in(project, "dg launch --assets group:shop")
    written = pl.read_delta(str(project / "lake" / "tables" / "orders_per_hour"))
    assert written.select("shop", "orders", "cents", "expensive", "Most").rows() == [("Oslo", 2, 400, 1, 600)]
    # Streams and jobs of YAML are found by the definitions too.
    assert "verdict: free" in run_in(project, "keyfold plan orders_per_hour --home lake")
    asked = """
from shop.definitions import defs
specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
job = specs["orders_per_hour"]
print(sorted(specs), job.tags, job.owners, job.group_name, job.freshness_policy)
print([one.name for one in defs.sensors], [one.name for one in defs.schedules])
"""
    told = run_in(project, f"python -c '{asked}'")
    parts = ("'orders_events', 'orders_landing', 'orders_per_hour'",)
    parts += ("'domain': 'sales'", "team:shop", "seconds=10800", "'orders_landed'", "'orders_per_hour_schedule'")
    # What was scaffolded loads, too.
    for part in (*parts, "'clicks_per_hour'", "'clicks_landed'"):
        assert part in told
    with dg.DagsterInstance.from_config(str(project / "dagster")) as instance:
        key = dg.AssetCheckKey(dg.AssetKey("orders_per_hour"), "cents_are_positive")
        record = instance.get_latest_asset_check_evaluation_record(key)
    assert record is not None
    assert record.status.value == "FAILED"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"aggregates": {"n": "median(cents)"}},
            "keyfold/job j: arguments: of: n is 'median.*give one of collect",
        ),
        ({"aggregates": {"n": "sum(cents +)"}}, "is no SQL of Polars"),
        ({"aggregates": {"n": "sum(cents + (SELECT z FROM read_csv('/etc/passwd')))"}}, "SELECT is not allowed"),
        ({"arguments": {"length": "1h", "lenght": "1h"}}, "keyfold/job j: arguments: .*lenght"),
        ({"freshness": components.Freshness(fail="soon")}, "freshness: fail"),
    ],
)
def test_a_wrong_attribute_is_told_with_its_place(changes, message):
    attributes = {"operator": "windows", "key": "k", "aggregates": {"n": "count"}, "arguments": {"length": "1h"}}
    job = components.KeyedJob.model_validate({"name": "j", "stream": "s", **attributes, **changes})
    columns = [
        components.Column(name="k", type="string", required=True),
        components.Column(name="at", type="timestamp", required=True),
    ]
    columns += [components.Column(name="cents", type="int64")]
    stream = components.Stream(name="s", group=None, columns=columns, event_time="at").declared()
    with pytest.raises(KeyfoldError, match=message):
        components.keyfold_assets(jobs=[job.declared(lambda _: stream)], translator=job._translator())


def test_no_default_comes_from_a_factory_which_the_oldest_dagster_of_the_range_refuses():
    types = [one for one in vars(components).values() if isinstance(one, type) and issubclass(one, dg.Component)]
    fields = [(one, name, field) for one in types for name, field in getattr(one, "model_fields", {}).items()]
    assert fields
    assert [(one, name) for one, name, field in fields if field.default_factory is not None] == []
