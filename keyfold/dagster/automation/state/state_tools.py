"""Define the state tools as Dagster jobs; the launchpad checks their config before a run starts.

None of them has a schedule or a sensor. Tools that cannot be undone (bootstrap, edit, erase) require a token that the pages do
not show (`tokens`). A run's output metadata describes what it did; `monitoring.edits` records edits and erasures.
"""

import json
from typing import Any

import dagster as dg
from pydantic import Field, ValidationError, create_model
from pydantic.alias_generators import to_snake
from pydantic.fields import FieldInfo
from pyspark.sql import SparkSession

from keyfold.dagster.assets.previews import preview_rows
from keyfold.dagster.automation.state.tokens import TOKEN_HELP, check_token, issue_token
from keyfold.errors import Misconfigured
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.job.parameters import is_path
from keyfold.keyed.runner import RunOptions
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs
from keyfold.runs import tools
from keyfold.runs.tools import StateTool
from keyfold.runs.tools.tool import Work


def state_job(tool: type[StateTool]) -> dg.JobDefinition:
    """Build the Dagster job of a state tool."""

    def act(context: dg.OpExecutionContext, config: Any, spark: SparkSession, lakehouse: Lakehouse) -> None:
        asked = _asked(tool, config, lakehouse)
        given = getattr(asked, "parameters", {})
        jobs = [configured_job(lakehouse, project_jobs()[name], given=given) for name in asked.job_names(lakehouse)]
        if tool.needs_token:
            check_token(context, config)
        outcome = asked.act(Work(spark, lakehouse, jobs, RunOptions()))
        # A preview replaces the summary's entry of that name, whose rows are not masked.
        metadata = {name: _shown(value) for name, value in outcome.summary.items() if name not in outcome.previews}
        metadata |= {name: preview_rows(*one) for name, one in outcome.previews.items()}
        # Issued after the dry run: one that failed has shown nothing to confirm.
        metadata |= issue_token(context, config) if tool.needs_token else {}
        context.add_output_metadata(metadata)

    # Dagster reads a config's type from the annotation, and each tool has its own.
    act.__annotations__ |= {
        "config": _form(tool),
        "spark": dg.ResourceParam[SparkSession],
        "lakehouse": dg.ResourceParam[Lakehouse],
    }
    op = dg.op(name=to_snake(tool.__name__), out=dg.Out(dg.Nothing), tags={"keyfold/tool": "state"})(act)
    return dg.GraphDefinition(tool.tool, node_defs=[op], description=tool.__doc__).to_job()


def _form(tool: type[StateTool]) -> type[dg.Config]:
    """Build the run config of a tool: its fields, its subject repeated to confirm, and a token if it requires one."""
    fields: dict[str, Any] = {name: (one.annotation, _field(name, one)) for name, one in tool.model_fields.items()}
    fields[tool.subject] = (str, Field(description=f"One of: {', '.join(tool.subjects())}."))
    fields["confirm"] = (str, Field(description=tool.confirm))
    if tool.needs_token:
        fields["token"] = (str, Field(default="", description=TOKEN_HELP))
    return create_model(f"{tool.__name__}Config", __base__=dg.Config, **fields)


def _field(name: str, field: FieldInfo) -> Any:
    if name == "dry_run":
        # True by default, unlike on the command line: one click sends a form.
        return Field(default=True, description=field.description)
    # `who` has no default here: the user of this process is not the person who sends the form.
    default = ... if field.is_required() or name == "who" else field.get_default(call_default_factory=True)
    return Field(default=default, description=field.description)


def _asked(tool: type[StateTool], config: dg.Config, lakehouse: Lakehouse) -> StateTool:
    """Build the tool from its run config.

    Raises:
        Misconfigured: the config is not confirmed, a value is invalid, or a value names a file.
    """
    given = config.model_dump(exclude={"token"})
    kind, confirm = tool.subject, given.pop("confirm")
    if (subject := given[kind]) not in tool.subjects():
        raise Misconfigured(f"no {kind} {subject!r}; known {kind}s: {', '.join(tool.subjects())}")
    if confirm != subject:
        raise Misconfigured(f"confirm is {confirm!r}: repeat the {kind}'s name, {subject}")
    if "parameters" in given:
        fields = project_jobs()[subject].parameters.model_fields
        if paths := [name for name in given["parameters"] if name in fields and is_path(fields[name])]:
            raise Misconfigured(f"{', '.join(paths)}: a run config may not name a file; give it on the command line")
    if "source" in given and given["source"] not in (tables := lakehouse.tables()):
        raise Misconfigured(
            f"source is {given['source']!r}: a run config may not name a file; give a table of {lakehouse.home} "
            f"({', '.join(tables) or 'none yet'}), or seed from files with `keyfold state bootstrap`"
        )
    try:
        return tool(**given)
    except ValidationError as error:
        raise Misconfigured(str(error)) from None


def _shown(value: Any) -> Any:
    if value is None:
        return "none"
    plain = json.loads(json.dumps(value, default=str))
    return plain if isinstance(plain, str | int | float) else dg.MetadataValue.json(plain)


STATE_TOOLS = [state_job(tool) for tool in tools.STATE_TOOLS.values()]
"""A job for every state tool."""
