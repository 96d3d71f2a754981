"""Every error says where it is and what to do: the texts of all `raise`s in the package, read from the source.

A text names a place if it has a value in it, or begins with a name and a colon. It names a remedy if it has one of the words below, or says
which values there are. This finds texts that forget one of them; whether a remedy helps, `test_remedies.py` shows. A text that is
put together from variables alone cannot be read here.
"""

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import keyfold
from keyfold import errors

PACKAGE = Path(keyfold.__file__).parent
ERRORS = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
VALUE = "…"

WHAT_TO_DO = re.compile(
    r"\b(add|allow|ask|call|check|choose|compare|correct|create|declare|delete|divide|explain|fix|give|install|keep|leave|let|list"
    r"|lower|make|materialize|mend|move|name|names|needed|needs|pass|put|raise|read|remove|rename|repeat|restore|return|returns|run|say"
    r"|says|see|set|start|stop|take|try|unset|upgrade|use|wait|write)\b|--\w|`",
    re.IGNORECASE,
)
WHAT_THERE_IS = re.compile(
    r"\b(must|may be|may have|at most|or more|is one of|there are|there is|has one|it has|its state has|its columns|it is|is of|are of"
    rf"|is from|whose columns are|retained|(tables|backups) there|its branches|versions \S+ to)\b|; has {VALUE}"
)
WITHOUT_REMEDY: frozenset[str] = frozenset(
    {
        "a line of stream … has several events, of which none can be named alone; nothing was changed",
        "events.… has no event with the values of line … of … any more: it was erased; nothing was changed",
        "input …: … does not fit …: …",
        "job … began with state from …, whose events are not all in its inputs: no span of its rows can be computed again",
        "job …: a column of its events cannot be computed from …: ……",
        "job …: a full refresh takes the defaults for what is not given. …",
        "job …: gap is in processing time, which only sessions with until or while_ have",
        "job …: its rows belong to the time in …, and its partitions are by …, so that they cannot be computed again; partitions by … can",
        "job …: its rows depend on all earlier events of their keys…, so that those of a span cannot be computed from the events around it; …",
        "job …: none of these keys has state in …",
        "job …: sessions need one count, and one first(…)",
        "job …: the rows of the span stand for … events, and would for … if they are computed again: its events were in rows of other times, were taken out of state, or came from elsewhere; …",
        "job …: … has no argument …, since …",
        "job …: … is made by …; … has …",
        "no event in events.… …; nothing was changed",
        "no job reads a stream …, whose quarantine could be explained",
        "no job writes a table … whose rows can be explained…",
        "no test can be written: batch … changed the state (…)",
        "reprocess: since, …, is not before until, …",
        "stream … has no event_id, and a column … of its own: no event can be named",
        "the event of line … of … was taken out of events.…; nothing was changed",
        "the events of … lack …; the job reads …",
        "the manifest of its parts is damaged (its checksum is another one)",
        "the manifest of its parts was not written by this version of Keyfold",
        "… cannot be written: …",
        "… cannot be written: …; nothing was written",
        "… has a time that is finer than a microsecond: …; nothing was changed",
        "… has no plan of batch …",
        "… has the key … and … …: states with different keys cannot be compared",
        "… has … of this key, and no row …",
        "… has …; Keyfold cannot merge rows into such a table: …",
        "… is gone: an event without event_id is found by its line there; nothing was changed",
        "… …: stream … is a …, not a stream",
        "…, from …, is Java …, too old for Spark: …",
        "…, manifests of the state, is damaged (its checksum is another one)",
        "…, manifests of the state, is gone",
        "…, or ISO 8601 (PT30M)",
        "…: a table lacks its last batch; …",
        "…: compaction made … rows of …; the table was not changed",
        "…: ingest would accept none of its rows; …",
        "…: its rows cannot be converted to state of the changed job: …; the old generation stays live",
        "…: maintenance or another process has replaced files that were to be changed",
        "…: no batch is done yet; …",
        "…: state: key column … is …, and … in the events",
        "…: stream … has no event_id, so that an event is named by its landing file and line, as in day1.csv:17",
        "…: the answer differs when the same events come …; … has … of them, and fails until the job gives one answer:\n…",
        "…: the id of … … events.… (such as …); an event that is new has to land as any other; nothing was changed",
        "…: where does not fit …: …",
        "…: … has no argument ……",
        "…: … in … (row …); nothing was changed",
        "…: … is no SQL of Polars: …",
        "…: … … is …, and … in input …; …",
    }
)
"""Texts that have none, since nothing is to be done, or the caller appends it. Take out what has got one; add none."""


WITHOUT_PLACE = frozenset(
    {
        "the manifest of its parts was not written by this version of Keyfold",
        "the manifest of its parts is damaged (its checksum is another one)",
    }
)
"""Texts to which the caller adds the file."""


def texts(leave_out: Collection[str] = ()) -> Iterator[str]:
    """The first arguments of all raised errors of Keyfold but these, with `…` for each value."""
    for module in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                name = node.exc.func.id if isinstance(node.exc.func, ast.Name) else ""
                text = text_of(node.exc.args[0])
                # What is left without values is put together elsewhere.
                if name in ERRORS.difference(leave_out) and re.search(
                    r"\w{3}", text.replace("nothing was changed", "")
                ):
                    yield text


def text_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else VALUE for part in node.values)  # pyright: ignore
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return VALUE


def test_every_error_says_what_to_do():
    without = {text for text in texts() if not (WHAT_TO_DO.search(text) or WHAT_THERE_IS.search(text))}
    assert without - WITHOUT_REMEDY == set(), "say what to do"
    assert WITHOUT_REMEDY - without == set(), "these have a remedy now, or are gone: take them out of the list"


def test_every_error_says_where_it_is():
    # A declaration adds its own name to what is `Unfit` in it.
    placeless = {text for text in texts({"Unfit"}) if not re.search(rf"{VALUE}|--\w|^[\w. -]+: |^Spark's ", text)}
    assert placeless == WITHOUT_PLACE


def test_texts_without_a_place_or_a_remedy_are_found():
    (raised,) = ast.parse('raise NotFound(f"no table {name}" + f" in {lakehouse}")').body
    assert isinstance(raised, ast.Raise)
    assert isinstance(raised.exc, ast.Call)
    text = text_of(raised.exc.args[0])
    assert text == "no table … in …"
    assert WHAT_TO_DO.search(text) is None
    assert WHAT_THERE_IS.search(text) is None
    assert WHAT_THERE_IS.search(f"{text}; tables there: …")
