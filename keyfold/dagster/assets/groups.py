"""The groups of assets: a module each in the project's package of groups, which is found by being there.

A new group is a new file in that package, `<name>.py`, with

    GROUP    its name in Dagster; a file with the GROUP of another joins it, with a job more for its stream, say
    STREAM   the stream that it begins with; left out where it reads a stream of another group
    JOBS     the job templates whose tables are in it
    ASSETS   its assets, as `stream_assets` and `keyed_assets` make them
    CHECKS   the checks that hold them back, as `stream_check` and `conservation_check` make them

There is nothing else to register: sensor, schedules, maintenance, automation, suites and health checks follow from these.
A module without `GROUP` is no group. One that lacks any of the others, or cannot be imported, is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

import dagster as dg

from keyfold.discovery import import_modules
from keyfold.errors import Misconfigured
from keyfold.keyed.job.template import JobTemplate
from keyfold.project import current_project
from keyfold.stream import Stream


@dataclass(frozen=True)
class Group:
    """A group of assets.

    Attributes:
        name: its name in Dagster.
        jobs: whose tables are in it.
        assets: all of it.
        checks: those that hold data back.
        stream: it begins with, None for one that reads a stream of another group.
    """

    name: str
    jobs: Sequence[JobTemplate]
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec]
    checks: Sequence[dg.AssetChecksDefinition]
    stream: Stream | None


def find_groups() -> list[Group]:
    """Every group: those that are shipped in the order of the pages, then yours by name of their modules.

    Raises:
        KeyfoldError: a module cannot be imported or is no whole group, two begin with one stream, or two of one group with a stream each.
    """
    project = current_project()
    modules = [module for module in import_modules(project.groups_in) if hasattr(module, "GROUP")]
    order = {f"{project.groups_in}.{name}": place for place, name in enumerate(project.first_groups)}
    # By name as well, so that the pages look the same on every machine.
    modules.sort(key=lambda module: (order.get(module.__name__, len(order)), module.__name__))
    groups = [_group(module) for module in modules]
    _require_different("stream", [group.stream.name if group.stream else None for group in groups], modules)
    return join_groups(groups)


def join_groups(groups: Sequence[Group]) -> list[Group]:
    """Join those of one name, in the order of the first of each: all jobs, assets and checks, and the stream of the one that has it.

    Raises:
        KeyfoldError: two of one name begin with a stream each: a group has one sensor, on one landing folder.
    """
    joined: dict[str, Group] = {}
    for group in groups:
        before = joined.setdefault(group.name, group)
        if before is group:
            continue
        if before.stream is not None and group.stream is not None:
            raise Misconfigured(
                f"two modules in assets/ have the GROUP {group.name!r} and begin with a stream each, "
                f"{before.stream.name} and {group.stream.name}; give one another GROUP"
            )
        joined[group.name] = Group(
            group.name,
            (*before.jobs, *group.jobs),
            (*before.assets, *group.assets),
            (*before.checks, *group.checks),
            before.stream or group.stream,
        )
    return list(joined.values())


def _group(module: ModuleType) -> Group:
    if lacking := [name for name in ("JOBS", "ASSETS", "CHECKS") if not hasattr(module, name)]:
        raise Misconfigured(f"{module.__file__} has GROUP but no {', '.join(lacking)}; a group of assets has all four")
    if (stream := getattr(module, "STREAM", None)) is not None and stream.landing:
        raise Misconfigured(
            f"{module.__file__}: STREAM is {stream.name}, which shares the landing of {stream.landing} and is ingested with it: leave "
            "STREAM out"
        )
    return Group(module.GROUP, module.JOBS, module.ASSETS, module.CHECKS, getattr(module, "STREAM", None))


def _require_different(what: str, names: Sequence[str | None], modules: Sequence[ModuleType]) -> None:
    found: dict[str, ModuleType] = {}
    for name, module in zip(names, modules, strict=True):
        if name is not None and found.setdefault(name, module) is not module:
            raise Misconfigured(
                f"{found[name].__file__} and {module.__file__} both have the {what} {name!r}; change one"
            )
