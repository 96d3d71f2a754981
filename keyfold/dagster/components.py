"""Component types: a stream, and a keyed job of one operator, written as YAML alone (`defs.yaml`).

`dg list components` shows them, and `dg scaffold defs keyfold.dagster.components.KeyedJob NAME` writes one to begin with. They need
the resource `keyfold` (`KeyfoldResource`), and a job finds its stream by the path of its component below `defs`, or by
`module:NAME` where it is declared in Python.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

import dagster as dg
import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import operators
from keyfold.columns import column
from keyfold.dagster.automation.schedules import advance_schedule
from keyfold.dagster.automation.sensors import landing_sensor
from keyfold.dagster.library import keyfold_assets
from keyfold.dagster.translator import JOB_TAG, KeyfoldTranslator
from keyfold.durations import as_duration
from keyfold.errors import KeyfoldError, Misconfigured
from keyfold.keyed.job import contract, inputs
from keyfold.state.rows.expressions import sql_expression
from keyfold.stream import TIMESTAMP
from keyfold.stream import stream as streams

_TYPES = {
    "string": pa.string(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_AGGREGATES = ("collect", "count", "count_distinct", "distinct", "first", "last", "max", "mean", "min", "sum")
_CALL = re.compile(r"(\w+)(?:\((.*)\))?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")


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


class Column(dg.Model, dg.Resolvable):
    """A column of a stream."""

    name: str
    type: Literal["string", "int64", "double", "bool", "date", "timestamp"]
    description: str = ""
    required: bool = False


class Freshness(dg.Model, dg.Resolvable):
    """How old a table may become, as durations such as `26h`."""

    fail: str
    warn: str | None = None


class _Described(dg.Component, dg.Model, dg.Resolvable):
    """What a stream and a job have in common."""

    name: str = Field(description="The name, of which those of tables and assets are made.")
    description: str = ""
    group: str | None = Field(None, description="The asset group.")
    owners: list[str] = Field(default_factory=list, description="People or teams, in Dagster's notation.")

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
    event_id: list[str] = Field(default_factory=list, description="Columns that together identify an event.")
    private: list[str] = Field(default_factory=list, description="Columns with personal values.")

    def declared(self) -> streams.Stream:
        """Return the stream."""
        return streams.Stream(
            self.name,
            pa.schema(
                [
                    column(one.name, _TYPES[one.type], one.description or one.name, nullable=not one.required)
                    for one in self.columns
                ]
            ),
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
    operator: Literal["windows", "sessions", "running", "totals"]
    key: list[str] | str
    aggregates: dict[str, str] = Field(
        description="Aggregates by column: count, sum(cents), mean(price * 2), count(page IS NOT NULL); in SQL of Polars."
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="Other arguments of the operator, such as length: 1h of windows."
    )
    delay: str = Field("0s", description="How long an event may come out of order.")
    checks: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Expectations of Great Expectations on the table, by check."
    )
    freshness: Freshness | None = Field(None, description="How old the table may become.")

    def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the spec of an asset, with the component's freshness."""
        if self.freshness is None or spec.freshness_policy is None:
            return spec
        warn = as_duration("freshness: warn", self.freshness.warn) if self.freshness.warn else None
        policy = dg.FreshnessPolicy.time_window(
            fail_window=as_duration("freshness: fail", self.freshness.fail), warn_window=warn
        )
        return spec.replace_attributes(freshness_policy=policy)

    def declared(self, stream: streams.Stream) -> contract.KeyedJob:
        """Return the job.

        Raises:
            KeyfoldError: an aggregate or an argument is not one of the operator.
        """
        where = f"{JOB_TAG} {self.name}"
        of = {name: _aggregate(text, f"{where}: aggregates: {name}") for name, text in self.aggregates.items()}
        source = inputs.Input(stream, delay=self.delay)
        try:
            return getattr(operators, self.operator)(
                self.name, source, of, key=self.key, description=self.description, **self.arguments
            )
        except TypeError as error:
            raise Misconfigured(f"{where}: arguments: {error}") from error

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the job's definitions."""
        job, translator = self.declared(self._source(context)), self._translator()
        suites: Any = {self.name: self.checks}
        return dg.Definitions(
            assets=keyfold_assets(jobs=[job], suites=suites if self.checks else {}, translator=translator),
            schedules=[advance_schedule(job, translator=translator)],
        )

    def _source(self, context: dg.ComponentLoadContext) -> streams.Stream:
        module, separator, name = self.stream.partition(":")
        if separator:
            return getattr(import_module(module), name)
        # Dagster 1.12 has another name for it.
        load: Any = getattr(context, "load_component", None) or context.load_component_at_path  # pyright: ignore
        found = load(self.stream)
        if not isinstance(found, Stream):
            raise KeyfoldError(f"{JOB_TAG} {self.name}: stream {self.stream} is a {type(found).__name__}, not a stream")
        return found.declared()


def _aggregate(text: str, where: str) -> operators.Aggregate:
    found = _CALL.fullmatch(text.strip())
    if found is None or found[1] not in _AGGREGATES:
        raise Misconfigured(f"{where} is {text!r}; give one of {', '.join(_AGGREGATES)}, such as count or sum(cents)")
    function, value = getattr(operators, found[1]), (found[2] or "").strip()
    if not value:
        return function()
    try:
        # SQL would not find a column in its own case.
        return function(pl.col(value) if _NAME.fullmatch(value) else sql_expression(where, value))
    except pl.exceptions.PolarsError as error:
        raise Misconfigured(f"{where}: {value!r} is no SQL of Polars: {error}") from None
