"""What an alert says: which checks have begun to fail, which pass again, and the message of them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

_LINES = 20


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a check.

    Attributes:
        check, asset: names.
        passed: whether it passed.
        severity: ERROR or WARN.
        blocking: whether it holds back what is downstream.
        description: what was found.
        run, job: where it was evaluated.
        end: position of the run's end among the ends of all runs.
    """

    check: str
    asset: str
    passed: bool
    severity: str
    blocking: bool
    description: str
    run: str
    job: str
    end: int

    @property
    def name(self) -> str:
        """The check and its asset in one word."""
        return f"{self.asset}: {self.check}"


@dataclass(frozen=True)
class Notice:
    """Something to tell."""

    kind: Literal["failed", "recovered"]
    of: Evaluation


def changes(evaluations: Iterable[Evaluation], failing: Mapping[str, str]) -> tuple[tuple[Notice, ...], dict[str, str]]:
    """What is to be told of evaluations in their order, and the checks that fail after them, with their severities."""
    after, notices = dict(failing), list[Notice]()
    for evaluation in evaluations:
        before = after.pop(evaluation.name, None)
        if evaluation.passed:
            if before is not None:
                notices.append(Notice("recovered", evaluation))
            continue
        after[evaluation.name] = evaluation.severity
        if before is None or (before == "WARN" and evaluation.severity == "ERROR"):
            notices.append(Notice("failed", evaluation))
    return tuple(notices), after


def message(notices: Iterable[Notice]) -> dict[str, Any]:
    """One message of all notices; its text, which chat services show, names the first twenty."""
    told = tuple(notices)
    failed, recovered = ([notice for notice in told if notice.kind == kind] for kind in ("failed", "recovered"))
    head = ", ".join(
        f"{len(some)} {'check' if len(some) == 1 else 'checks'} {kind}"
        for kind, some in (("failed", failed), ("recovered", recovered))
        if some
    )
    lines = [line(notice) for notice in (*failed, *recovered)]
    more = [f"and {len(lines) - _LINES} more"] if len(lines) > _LINES else []
    return {
        "text": _without_markup("\n".join((head, *lines[:_LINES], *more))),
        "failed": [_content(notice) for notice in failed],
        "recovered": [_content(notice) for notice in recovered],
    }


def line(notice: Notice) -> str:
    """A notice in one line."""
    of = notice.of
    where = f"run {of.run[:8]} of {of.job}"
    if notice.kind == "recovered":
        return f"recovered: {of.name} ({where})"
    severity = f"{of.severity}, blocks what is downstream" if of.blocking and of.severity == "ERROR" else of.severity
    return f"failed: {of.name} [{severity}] {of.description or 'no description'} ({where})"


def _without_markup(text: str) -> str:
    """A text that no chat service takes for more: what a check found may be anything that somebody has put into a row.

    Where they know Markdown, a link or an image has its address after `](`; some take what stands in `<>` for links and
    for calls to everybody.
    """
    return text.translate(_BRACKETS).replace("](", "] (")


_BRACKETS = str.maketrans("<>", "‹›")


def _content(notice: Notice) -> dict[str, Any]:
    return {name: value for name, value in asdict(notice.of).items() if name not in ("passed", "end")}
