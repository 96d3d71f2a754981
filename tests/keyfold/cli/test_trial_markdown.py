"""What a trial prints for a pull request: every value stands in its cell, private ones are masked, and it fits a comment."""

import polars as pl
import pyarrow as pa
import pytest
from markdown_it import MarkdownIt

from keyfold import Input, Stream
from keyfold.cli import trial_markdown as module
from keyfold.cli.trial_markdown import LONGEST, trial_markdown
from keyfold.operators import count, last, windows
from keyfold.state.changing.moving import plan_change
from keyfold.state.changing.trying import try_job
from keyfold.stream import TIMESTAMP
from tests.lake import LOCAL
from tests.shop import HOUR, MINUTE, START

NOTE = pa.schema(
    [
        pa.field("user", pa.string(), nullable=False),
        pa.field("at", TIMESTAMP, nullable=False),
        pa.field("text", pa.string()),
        pa.field("secret", pa.string()),
    ]
)
NOTES = Stream("notes", NOTE, event_time="at", private=("secret",))
END = "the end"
HOSTILE = [
    "a | b || c \\| d", "`", "``` `` `x", "two\nlines\r\n| and | a row |", "<script>alert(1)</script> &amp;", "@everyone #1 :tada:",
    "[link](javascript:x) ![image](https://x)", "\x1b[31mred\x1b[0m", "right \u202e to left", "", " spaces ", "**bold** _it_ ~~no~~",
    "---\n# title", "é🎉", "\\", "|", "x" * 3_000,
]  # fmt: skip


def as_windows(condition, **more):
    of = {"n": count(), "newest": last("text"), "secrets": last("secret"), **more}
    return windows(
        "notes_an_hour", Input(NOTES.where(condition | (pl.col("text") == END))), of, key="user", length="1h"
    )


def put(lake, texts):
    """Have notes come, each of a user of its own, and one that closes their hours."""
    rows = [
        {"user": f"u{number}{text}"[:40], "at": START + number * MINUTE, "text": text, "secret": f"hidden-{number}"}
        for number, text in enumerate(texts)
    ]
    rows.append({"user": "~", "at": START + 99 * HOUR, "text": END, "secret": "hidden-end"})
    lake.put(
        pl.DataFrame(rows, {"user": pl.String, "at": pl.Datetime("us", "UTC"), "text": pl.String, "secret": pl.String}),
        "notes",
    )


def tried(lake, before, after, **options):
    lake.run(before)
    changes = plan_change(lake.lakehouse, after).changes
    trial = try_job(lake.lakehouse, after, "pr", runners=LOCAL, **options)
    return trial, trial_markdown([trial], changes)


def cells_of(text):
    """The cells of all tables of a page as a reader sees them, and what else it has."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    rows: list[list[str]] = []
    others: set[str] = set()
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        if token.type == "inline":
            kinds = {child.type for child in token.children or ()}
            others |= kinds - {"text", "code_inline", "softbreak", "strong_open", "strong_close"}
            content = "".join(child.content for child in token.children or ())
            if token.level >= 3 and rows:
                rows[-1].append(content)
    return rows, others


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_value_stands_in_its_cell_whatever_it_is(lake, hostile):
    put(lake, ["plain", hostile])
    _, text = tried(lake, as_windows(pl.col("text") == "plain"), as_windows(pl.col("text") != "none"))
    rows, others = cells_of(text)
    assert not others
    assert {len(row) for row in rows} <= {4, 5}
    (written,) = (cells[3] for cells in rows if cells[1:2] == ["newest"])
    assert written.isprintable()
    plain = hostile.replace("\r", "\\r").replace("\n", "\\n").replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert written.strip().rstrip("…") in plain or plain.strip() == written.strip()


def test_private_values_are_masked_also_where_only_they_differ(lake):
    put(lake, [f"text-{number}" for number in range(12)])
    job = as_windows(pl.col("text") != "none")
    other = as_windows(pl.col("text") != "text-3")
    trial, text = tried(lake, job, other)
    assert "hidden-" not in text
    assert "(private)" in text
    rows = trial.tables["notes_an_hour"].first_of_each(9)
    assert "hidden-" in str(rows.to_dicts())


def test_counts_and_examples_are_those_of_the_rows_and_the_change_is_said(lake):
    put(lake, [f"text-{number}" for number in range(300)])
    before, after = as_windows(pl.col("user") < "u2"), as_windows(pl.col("user") < "u25", number=count())
    trial, text = tried(lake, before, after)
    counts = trial.tables["notes_an_hour"].summary()
    assert f"| `notes_an_hour` | {counts.added:,} | {counts.changed:,} | {counts.removed:,} |" in text
    assert counts.added > 5
    assert "`where: " in text
    assert "`aggregates: number = count() is new" in text
    rows, _ = cells_of(text)
    examples = {cells[0] for cells in rows if len(cells) == 4 and cells[0].startswith("user=")}
    named = {f"user={row['user']}" for row in trial.tables["notes_an_hour"].first_of_each(5).to_dicts()}
    assert {example.partition(",")[0] for example in examples} == named


@pytest.mark.parametrize("size", [1, 70, 5_000])
def test_it_fits_a_comment_and_says_what_is_left_out(lake, size, monkeypatch):
    put(lake, ["é" * size + str(number) for number in range(40)])
    monkeypatch.setattr(module, "_EXAMPLES", 40)
    many = {f"column_{number}": last("text") for number in range(0 if size == 1 else 40)}
    _, text = tried(lake, as_windows(pl.col("text") == "none", **many), as_windows(pl.col("text") != "none", **many))
    assert len(text.encode()) <= LONGEST
    assert ("examples left out" in text) == (size > 1)


def test_the_command_prints_it_and_takes_one_form(keyfold):
    refused = keyfold("try", "ride_summaries", "pr", "--markdown", "--json")
    assert refused.exit_code == 2
    assert "give either --markdown or --json" in refused.stderr
