"""What data holds is printed as text: no markup, no escape sequences, no formulas."""

import csv
import io

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from keyfold.cli.plain_text import cell, guarded, message, visible
from keyfold.cli.show import print_rows
from keyfold.cli.terminal import print_error, report, warn

HOSTILE = ["[/nope]", "[bold]x", ":smile:", "\x1b[2J\x1b]0;title\x07", "\u202ereversed", "a\nb", "=1+1", "\x9b31m"]


def printed(*shown):
    console = Console(file=io.StringIO(), width=1_000, force_terminal=True, color_system="truecolor")
    console.print(*shown, soft_wrap=True)
    return console.file.getvalue()  # type: ignore[attr-defined]


@given(st.text())
def test_nothing_but_printable_characters_reaches_a_terminal_and_none_is_lost(text):
    shown = visible(text)
    assert shown.isprintable() or all(one.isprintable() or one in text for one in shown)
    assert "\x1b" not in shown
    assert len(shown) >= len(text)
    assert printed(cell(text)).rstrip("\n") == shown


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))))
def test_text_without_control_characters_stays_as_it_is(text):
    assert visible(text) == text


def test_colours_that_a_library_puts_into_a_message_are_left_out_and_other_sequences_are_shown():
    assert message("\x1b[31mred\x1b[0m\nand \x1b[2Jclear").plain == "red\nand \\x1b[2Jclear"


@pytest.mark.parametrize("style", ["table", "csv", "json"])
def test_hostile_values_neither_break_nor_hide_the_rows_of_a_table(tmp_path, style):
    pl.DataFrame({"raw": HOSTILE, "models": [[one] for one in HOSTILE]}).write_delta(str(tmp_path / "table"))
    to = io.StringIO()
    assert print_rows(tmp_path / "table", style, None, to) == len(HOSTILE)
    assert "\x1b" not in to.getvalue() or style == "csv"
    if style == "table":
        assert all(visible(one) in to.getvalue() for one in HOSTILE)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("style", ["csv", "json"])
def test_rows_for_programs_command_no_terminal_that_they_are_printed_to(tmp_path, style):
    pl.DataFrame({"raw": HOSTILE}).write_delta(str(tmp_path / "table"))
    to = Terminal()
    print_rows(tmp_path / "table", style, None, to)
    assert visible(to.getvalue(), keep="\n") == to.getvalue()


def test_a_cell_of_csv_is_no_formula(tmp_path):
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "1", "", None]
    frame = pl.DataFrame({"text": pl.Series(texts, dtype=pl.String), "number": pl.Series([-1.5] * len(texts))})
    frame.write_delta(str(tmp_path / "table"))
    to = io.StringIO()
    print_rows(tmp_path / "table", "csv", None, to)
    rows = list(csv.DictReader(io.StringIO(to.getvalue(), newline="")))
    assert [row["text"] for row in rows] == [f"'{text}" if text and text != "1" else text or "" for text in texts]
    assert [row["number"] for row in rows] == ["-1.5"] * len(texts)
    assert guarded("1-1") == "1-1"


def test_messages_of_every_kind_are_text(capsys):
    for text in HOSTILE:
        report({}, as_json=False, text=text)
        warn([text])
        print_error(text)
        told = capsys.readouterr()
        assert told.out == visible(text, keep="\n") + "\n"
        assert told.err == f"warning: {visible(text, keep=chr(10))}\nerror: {visible(text, keep=chr(10))}\n"
