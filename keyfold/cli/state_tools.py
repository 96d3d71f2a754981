"""Build `keyfold state bootstrap|move|edit` and `keyfold plan|try|promote|redrive|correct|quarantine|erase` from the state tools."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_origin

import annotated_types
import typer
from pydantic.fields import FieldInfo

from keyfold.cli.known_names import require_known
from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, given_pairs, given_values
from keyfold.cli.running import runners_for
from keyfold.cli.state_jobs import build_live_job, require_lakehouse
from keyfold.cli.terminal import failures, progress_of, report, usage_faults
from keyfold.errors import KeyfoldError
from keyfold.keyed.runner import RunOptions
from keyfold.lakehouse import Lakehouse
from keyfold.runs.tools import STATE_TOOLS, StateTool
from keyfold.runs.tools.tool import Option, Work


def command_of(tool: type[StateTool], summary: str = "", **fixed: Any) -> Callable[..., None]:
    """Build the command of a tool: its fields become arguments and options, except those with a fixed value.

    A tool that erases data for good needs a confirmation. Others need none: which generation is live can be changed back.
    """
    is_confirmed = tool.is_final

    def command(home: str, as_json: bool, confirm: str | None = None, **given: Any) -> None:
        subject = given[tool.subject]
        require_known(tool.subject, subject, tool.subjects())
        with usage_faults():
            fields = {name: _parsed(tool.model_fields[name], one) for name, one in given.items() if one is not None}
            asked = tool(**fields, **fixed)
            if is_confirmed and not given["dry_run"] and confirm != subject:
                raise KeyfoldError(
                    f"erased rows cannot be restored, not even from the table's history: try with --dry-run, then give "
                    f"--confirm {subject}"
                )
        with failures():
            lakehouse = Lakehouse(home)
            parameters = getattr(asked, "parameters", {})
            jobs = [build_live_job(lakehouse, name, parameters) for name in asked.job_names(lakehouse)]
            require_lakehouse(lakehouse)
            with runners_for(None, home) as runners, progress_of(subject) as report_progress:
                options = RunOptions(on_batch=lambda progress, _: report_progress(progress))
                outcome = asked.act(Work(runners, lakehouse, jobs, options))
            report(outcome.summary, as_json, outcome.text)

    fields = {name: _parameter(one) for name, one in tool.model_fields.items() if name not in fixed}
    if is_confirmed:
        fields["confirm"] = (Annotated[str | None, typer.Option("--confirm", help=tool.confirm)], None)
    fields |= {"home": (Home, DEFAULT_HOME), "as_json": (AsJson, False)}
    # Typer reads the help, the types and the defaults from these attributes.
    command.__doc__ = summary or tool.__doc__
    command.__annotations__ = {name: kind for name, (kind, _) in fields.items()}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in fields.items()
        ]
    )
    return command


def _parameter(field: FieldInfo) -> tuple[Any, Any]:
    """Return the type and the default of a field as Typer expects them."""
    kind: Any = list[str] if get_origin(field.annotation) is dict else field.annotation
    default = inspect.Parameter.empty if field.is_required() else field.get_default()
    if field.default_factory is not None:
        kind, default = kind | None, None
    option = next((one for one in field.metadata if isinstance(one, Option)), None)
    if option is None:
        return Annotated[kind, typer.Argument(help=field.description)], default
    least = next((one.ge for one in field.metadata if isinstance(one, annotated_types.Ge)), None)
    most = next((one.le for one in field.metadata if isinstance(one, annotated_types.Le)), None)
    bounds: dict[str, Any] = {"min": least, "max": most}
    return Annotated[kind, typer.Option(option.flag, metavar=option.metavar, help=field.description, **bounds)], default


def _parsed(field: FieldInfo, given: Any) -> Any:
    """Parse the value of a field: `name=value` pairs become a mapping."""
    if get_origin(field.annotation) is not dict:
        return given
    flag = next(one.flag for one in field.metadata if isinstance(one, Option))
    return given_values(flag, given) if field.annotation == dict[str, list[str]] else given_pairs(flag, given)


plan = command_of(
    STATE_TOOLS["state_move"],
    "Report what a changed job needs before it runs: nothing, a state move, or a full refresh.",
    dry_run=True,
)
move = command_of(STATE_TOOLS["state_move"], dry_run=False)
correct, quarantine = command_of(STATE_TOOLS["correct"]), command_of(STATE_TOOLS["quarantine"])
bootstrap, edit, erase, try_, redrive, promote = (
    command_of(STATE_TOOLS[f"state_{name}"]) for name in ("bootstrap", "edit", "erase", "try", "redrive", "promote")
)
