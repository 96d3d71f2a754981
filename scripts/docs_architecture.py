#!/usr/bin/env python
"""Draw docs/images/architecture.svg: what becomes of an event, from a file or a topic to a table: `make docs`.

A test fails if the picture is not what this script draws.
"""

from html import escape
from pathlib import Path
from typing import NamedTuple

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "architecture.svg"

_WIDTH, _HEIGHT = 920, 330
_BOX_HEIGHT = 62


class Box(NamedTuple):
    """A box: its upper left corner, its width, its lines of text, and whether it is work (or else something that is stored)."""

    x: int
    y: int
    width: int
    lines: tuple[str, str]
    is_work: bool = False

    @property
    def right(self) -> tuple[int, int]:
        """Where an arrow leaves it."""
        return self.x + self.width, self.y + _BOX_HEIGHT // 2

    @property
    def left(self) -> tuple[int, int]:
        """Where an arrow reaches it."""
        return self.x, self.y + _BOX_HEIGHT // 2


FILES = Box(10, 40, 130, ("landing files", "CSV, JSON, Parquet"))
TOPICS = Box(10, 130, 130, ("Kafka topics", "JSON, Avro"))
INGEST = Box(190, 85, 130, ("ingest", "parse, check, once"), is_work=True)
EVENTS = Box(370, 40, 150, ("events.<stream>", "Delta table"))
QUARANTINE = Box(370, 130, 150, ("quarantine", "line, file, reason"))
JOB = Box(570, 40, 140, ("job", "step per key, timers"), is_work=True)
TABLES = Box(760, 40, 150, ("tables/<name>", "Delta tables"))
LATE = Box(760, 130, 150, ("late.<job>", "events after their result"))
STATE = Box(570, 130, 140, ("state", "rows per key, Parquet"))
JOURNAL = Box(
    190,
    240,
    520,
    ("journal", "a plan before each batch, one commit record after it: what no record names does not exist"),
)
CHECK = Box(760, 240, 150, ("check of the run", "read = out + open + late"), is_work=True)

BOXES = (FILES, TOPICS, INGEST, EVENTS, QUARANTINE, JOB, TABLES, LATE, STATE, JOURNAL, CHECK)
ARROWS = (
    (FILES.right, INGEST.left),
    (TOPICS.right, INGEST.left),
    (INGEST.right, EVENTS.left),
    (INGEST.right, QUARANTINE.left),
    (EVENTS.right, JOB.left),
    (JOB.right, TABLES.left),
    (JOB.right, LATE.left),
    ((620, 102), (620, 130)),
    ((660, 130), (660, 102)),
    ((255, 147), (255, 240)),
    ((640, 192), (640, 240)),
    ((835, 192), (835, 240)),
)


def draw() -> str:
    """Return the picture."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="14" role="img">',
        "<title>Events go from landing files and topics by ingest into event tables, and by jobs with state into tables</title>",
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#5c6bc0"/></marker></defs>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        '<text x="10" y="24" fill="#546e7a" font-size="12">each run ends; it works in one process or on Spark</text>',
    ]
    parts += [
        f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="#5c6bc0" stroke-width="1.5" marker-end="url(#arrow)"/>'
        for (x, y), (to_x, to_y) in ARROWS
    ]
    for box in BOXES:
        fill, stroke = ("#e8eaf6", "#3f51b5") if box.is_work else ("#f5f7f8", "#90a4ae")
        middle = box.x + box.width // 2
        title, detail = map(escape, box.lines)
        parts += [
            f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{_BOX_HEIGHT}" rx="6" fill="{fill}" stroke="{stroke}"/>',
            f'<text x="{middle}" y="{box.y + 27}" text-anchor="middle" font-weight="bold" fill="#263238">{title}</text>',
            f'<text x="{middle}" y="{box.y + 46}" text-anchor="middle" font-size="11" fill="#546e7a">{detail}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
