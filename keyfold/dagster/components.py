"""Component types: a stream, and a keyed job of one operator, written as YAML alone (`defs.yaml`).

`dg list components` shows them, and `dg scaffold defs keyfold.dagster.components.KeyedJob NAME` writes one to begin with. They need
the resource `keyfold` (`KeyfoldResource`), and a job finds its stream by the path of its component below `defs`, or by
`module:NAME` where it is declared in Python.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from keyfold.dagster.arguments import OPERATORS, Arguments, Column, schema_of
from keyfold.dagster.assets.shown import JobAssets
from keyfold.dagster.automation.schedules import group_schedule
from keyfold.dagster.automation.sensors import landing_sensor
from keyfold.dagster.library import keyfold_assets
from keyfold.dagster.partitions.declared import Partitions
from keyfold.dagster.translator import JOB_TAG, KeyfoldTranslator
from keyfold.errors import KeyfoldError
from keyfold.keyed.job import contract
from keyfold.stream import stream as streams
from keyfold.times import as_duration


class _Example(dg.Scaffolder[Any]):
    """Writes `defs.yaml` with attributes to begin with."""

    attributes: Mapping[str, Any]

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        dg.scaffold_component(request, {**self.attributes, "name": request.target_path.name})


class _StreamExample(_Example):
    attributes: Mapping[str, Any] = {
        "name": "",
        "columns": [
            {"name": "key", "type": "string", "description": "What the event is of", "required": True},
            {"name": "at", "type": "timestamp", "description": "When it was", "required": True},
        ],
        "event_time": "at",
    }


class _JobExample(_Example):
    attributes: Mapping[str, Any] = {
        "name": "",
        "stream": "STREAM",
        "operator": "windows",
        "key": "key",
        "aggregates": {"events": "count"},
        "arguments": {"length": "1h"},
        "freshness": {"fail": "26h", "warn": "13h"},
    }


class Freshness(dg.Model, dg.Resolvable):
    """How old a table may become, as durations such as `26h`."""

    fail: str
    warn: str | None = None


class PartitionsOfTable(dg.Model, dg.Resolvable):
    """The partitions of the main table, as the arguments of keyfold.dagster.Partitions."""

    column: str
    every: Literal["1h", "1d", "1w", "1mo"] = "1d"
    zone: str = "UTC"
    start: str = Field("2020-01-01", description="The date of the first partition.")
    after: str | None = Field(None, description="How long the watermark must be past the end of a partition.")

    def declared(self) -> Partitions:
        """Return the partitions.

        Raises:
            KeyfoldError: an argument does not fit.
        """
        return Partitions(**self.model_dump())


class _Described(dg.Component, dg.Model, dg.Resolvable):
    """What a stream and a job have in common."""

    name: str = Field(description="The name, of which those of tables and assets are made.")
    description: str = ""
    group: str | None = Field(None, description="The asset group.")
    owners: list[str] = Field(default=[], description="People or teams, in Dagster's notation.")

    def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the spec of an asset; extend the component and override this to change anything but its key."""
        return spec

    def _translator(self) -> KeyfoldTranslator:
        component = self

        class Translator(KeyfoldTranslator):
            def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
                return component.get_asset_spec(super().get_asset_spec(spec))

        return Translator(group=self.group, owners=self.owners)


@dg.scaffold_with(_StreamExample)
class Stream(_Described):
    """A stream: its landing folder, events and quarantine, their checks, and the sensor of new files."""

    columns: list[Column] = Field(description="The columns of an event.")
    event_time: str = Field(description="The column with the event's time.")
    event_id: list[str] = Field(default=[], description="Columns that together identify an event.")
    private: list[str] = Field(default=[], description="Columns with personal values.")

    def declared(self) -> streams.Stream:
        """Return the stream."""
        return streams.Stream(
            self.name,
            schema_of(self.columns),
            event_time=self.event_time,
            event_id=tuple(self.event_id),
            private=tuple(self.private),
            description=self.description,
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the stream's definitions."""
        stream, translator = self.declared(), self._translator()
        return dg.Definitions(
            assets=keyfold_assets(streams=[stream], translator=translator),
            sensors=[landing_sensor(stream, translator=translator)],
        )


@dg.scaffold_with(_JobExample)
class KeyedJob(_Described):
    """A keyed job of one operator: its tables with their checks, and the schedule that advances its clock."""

    stream: str = Field(description="Path of the stream's component below defs, or module:NAME of one in Python.")
    operator: Literal[
        "alert", "as_of_join", "interval_join", "last_n", "lookup_join", "pattern", "rows", "running", "sessions", "totals",
        "window_join", "windows",
    ]  # fmt: skip
    key: list[str] | str = Field("", description="Columns of the key; none for operators that take no key.")
    aggregates: dict[str, str] = Field(
        default={},
        description="Aggregates by column: count, sum(cents), mean(price * 2), count(page IS NOT NULL); in SQL of Polars.",
    )
    arguments: dict[str, Any] = Field(
        default={},
        description="Other arguments of the operator and of keyfold.KeyedJob (keyfold.dagster.arguments says how in YAML).",
    )
    delay: str = Field("0s", description="How long an event may come out of order.")
    input: dict[str, Any] = Field(
        default={},
        description="Other arguments of keyfold.Input, such as idle_timeout: 1h, and where: cents > 0, derive or explode.",
    )
    checks: dict[str, dict[str, Any]] = Field(
        default={}, description="Expectations of Great Expectations on the table, by check."
    )
    freshness: Freshness | None = Field(None, description="How old the table may become.")
    partitions: PartitionsOfTable | None = Field(None, description="Its partitions by time, reported when complete.")

    def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the spec of an asset, with the component's freshness."""
        if self.freshness is None or spec.freshness_policy is None:
            return spec
        warn = as_duration("freshness: warn", self.freshness.warn) if self.freshness.warn else None
        policy = dg.FreshnessPolicy.time_window(
            fail_window=as_duration("freshness: fail", self.freshness.fail), warn_window=warn
        )
        return spec.replace_attributes(freshness_policy=policy)

    def declared(self, find: Callable[[str], streams.Stream]) -> contract.KeyedJob:
        """Return the job.

        Args:
            find: returns the stream at a path.

        Raises:
            KeyfoldError: an aggregate or an argument is not one of the operator.
        """
        where, read = f"{JOB_TAG} {self.name}", Arguments(find)
        source = read.input(f"{where}: input", {"stream": self.stream, "delay": self.delay, **self.input})
        own = {"of": self.aggregates, "key": self.key}
        given = {name: value for name, value in own.items() if value} | self.arguments
        settings = {"description": self.description}
        return read.call(f"{where}: arguments", OPERATORS[self.operator], given, self.name, source, **settings)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the job's definitions."""
        job, translator = self.declared(lambda path: self._stream_at(context, path)), self._translator()
        suites: Any = {self.name: self.checks}
        shown = JobAssets(job, partitions=self.partitions and self.partitions.declared())
        return dg.Definitions(
            assets=keyfold_assets(jobs=[shown], suites=suites if self.checks else {}, translator=translator),
            schedules=[group_schedule(f"{self.name}_schedule", job, translator=translator)],
        )

    def _stream_at(self, context: dg.ComponentLoadContext, path: str) -> streams.Stream:
        module, separator, name = path.partition(":")
        if separator:
            return getattr(import_module(module), name)
        # Dagster 1.12 has another name for it.
        load: Any = getattr(context, "load_component", None) or context.load_component_at_path  # pyright: ignore
        found = load(path)
        if not isinstance(found, Stream):
            raise KeyfoldError(f"{JOB_TAG} {self.name}: stream {path} is a {type(found).__name__}, not a stream")
        return found.declared()
