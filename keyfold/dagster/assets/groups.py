"""Find the asset groups: each is a module in the project's package of groups.

To add a group, add a file `<name>.py` to that package, with

    GROUP    the group's name in Dagster; modules with the same GROUP are joined
    OWNERS   people or teams, in Dagster's notation; may be left out
    STREAM   the stream that the group ingests; omit it if the group reads a stream of another group
    JOBS     the jobs of the group, each as `JobAssets`
    ASSETS   further assets of your own; may be left out
    CHECKS   further checks of your own; may be left out

Nothing else is registered: the assets of the stream and the jobs, the checks that no row is lost, sensors, schedules, maintenance,
automation, suites and health checks are derived from these. A module without `GROUP` is ignored. A module that lacks JOBS, or cannot
be imported, is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import dagster as dg

from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from keyfold.dagster.assets.streams import stream_assets, stream_check
from keyfold.discovery import import_modules
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.project import current_project
from keyfold.stream import Stream


@dataclass(frozen=True)
class Group:
    """A group of assets.

    Attributes:
        name: the group's name in Dagster.
        jobs: the jobs whose tables it contains.
        assets: all its assets.
        checks: that no row of a stream or job is lost, and the group's own checks.
        stream: the stream that it ingests; None if it reads a stream of another group.
    """

    name: str
    jobs: Sequence[KeyedJob]
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec]
    checks: Sequence[dg.AssetChecksDefinition]
    stream: Stream | None


@cache
def project_groups() -> Sequence[Group]:
    """Return the groups of the current project, which are found once: to build their assets takes a tenth of a second.

    Raises:
        KeyfoldError: as `find_groups`.
    """
    return find_groups()


def find_groups() -> list[Group]:
    """Find all groups: first the project's `first_groups` in their order, then the others by module name.

    Raises:
        KeyfoldError: a module cannot be imported or lacks a part, two modules have the same STREAM, or two modules of one
            group have a STREAM each.
    """
    project = current_project()
    modules = [module for module in import_modules(project.groups_in) if hasattr(module, "GROUP")]
    order = {f"{project.groups_in}.{name}": place for place, name in enumerate(project.first_groups)}
    # Sorted by name too, so that the order is the same on every machine.
    modules.sort(key=lambda module: (order.get(module.__name__, len(order)), module.__name__))
    groups = [_group(module) for module in modules]
    _require_different("stream", [group.stream.name if group.stream else None for group in groups], modules)
    return join_groups(groups)


def join_groups(groups: Sequence[Group]) -> list[Group]:
    """Join the groups of the same name, in order of first appearance.

    Raises:
        KeyfoldError: two groups of one name have a stream each; a group has one sensor on one landing folder.
    """
    joined: dict[str, Group] = {}
    for group in groups:
        before = joined.setdefault(group.name, group)
        if before is group:
            continue
        if before.stream is not None and group.stream is not None:
            raise Misconfigured(
                f"two modules in assets/ have the GROUP {group.name!r} and a STREAM each, "
                f"{before.stream.name} and {group.stream.name}; give one of them another GROUP"
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
    if not hasattr(module, "JOBS"):
        raise Misconfigured(f"{module.__file__} has GROUP but no JOBS; a group of assets has both")
    name, owners = module.GROUP, getattr(module, "OWNERS", ())
    stream: Stream | None = getattr(module, "STREAM", None)
    jobs: list[KeyedJob] = [one.job for one in module.JOBS]
    assets = [*(keyed_assets(one, group=name, owners=owners) for one in module.JOBS), *getattr(module, "ASSETS", ())]
    checks = [*map(conservation_check, jobs), *getattr(module, "CHECKS", ())]
    if stream is not None:
        assets[:0] = stream_assets(stream, group=name, owners=owners)
        checks.insert(0, stream_check(stream))
    return Group(name, jobs, assets, checks, stream)


def _require_different(what: str, names: Sequence[str | None], modules: Sequence[ModuleType]) -> None:
    found: dict[str, ModuleType] = {}
    for name, module in zip(names, modules, strict=True):
        if name is not None and found.setdefault(name, module) is not module:
            raise Misconfigured(
                f"{found[name].__file__} and {module.__file__} both have the {what} {name!r}; change one"
            )
