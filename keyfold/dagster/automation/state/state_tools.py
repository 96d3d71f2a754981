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
    """The Dagster job of a state tool."""

    def act(context: dg.OpExecutionContext, config: Any, spark: SparkSession, lakehouse: Lakehouse) -> None:
        asked = _asked(tool, config, lakehouse)
        given = getattr(asked, "parameters", {})
        jobs = [configured_job(lakehouse, project_jobs()[name], given=given) for name in asked.job_names(lakehouse)]
        if tool.needs_token:
            check_token(context, config)
        outcome = asked.act(Work(spark, lakehouse, jobs, RunOptions()))
        told = {name: _shown(value) for name, value in outcome.summary.items() if name not in outcome.previews}
        told |= issue_token(context, config) if tool.needs_token else {}
        context.add_output_metadata(told | {name: preview_rows(*one) for name, one in outcome.previews.items()})

    act.__annotations__ |= {
        "config": _form(tool),
        "spark": dg.ResourceParam[SparkSession],
        "lakehouse": dg.ResourceParam[Lakehouse],
    }
    op = dg.op(name=to_snake(tool.__name__), out=dg.Out(dg.Nothing), tags={"keyfold/tool": "state"})(act)
    return dg.GraphDefinition(tool.tool, node_defs=[op], description=tool.__doc__).to_job()


def _form(tool: type[StateTool]) -> type[dg.Config]:
    """What the launchpad asks for: the tool's fields, its subject once more, and a token where it needs one."""
    fields: dict[str, Any] = {name: (one.annotation, _field(name, one)) for name, one in tool.model_fields.items()}
    fields[tool.subject] = (str, Field(description=f"One of: {', '.join(tool.subjects())}."))
    fields["confirm"] = (str, Field(description=tool.confirm))
    if tool.needs_token:
        fields["token"] = (str, Field(default="", description=TOKEN_HELP))
    return create_model(f"{tool.__name__}Config", __base__=dg.Config, **fields)


def _field(name: str, field: FieldInfo) -> Any:
    if name == "dry_run":
        # The other way round than on the command line: a form is sent by one click.
        return Field(default=True, description=field.description)
    # The user of this process is not who sends the form.
    if field.is_required() or name == "who":
        return Field(description=field.description)
    return Field(default=field.get_default(call_default_factory=True), description=field.description)


def _asked(tool: type[StateTool], config: dg.Config, lakehouse: Lakehouse) -> StateTool:
    """The tool as a form asks for it.

    Raises:
        Misconfigured: it is not confirmed, or a value is none that it can have, or names a file.
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
"""Every tool, as a job."""
