"""Queries 3, 4, 6, 9, 20 and 23: people, auctions and bids joined."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa

from benchmarks.nexmark.streams import AUCTION, BID, PERSON, TIME, UNCOUNTED, reads, required, times, whole
from keyfold import Clock, Input, JobTable, KeyedJob, Step

_BID_NAMES = {TIME: "bidTime", "extra": "bidExtra"}
_AUCTION = [field for field in AUCTION if field.name != "id"]
_BID = [field.with_name(_BID_NAMES.get(field.name, field.name)) for field in BID if field.name != "auction"]
_OPEN: dict[str, Any] = {**UNCOUNTED, "step_decides_late": True}
"""Of jobs whose keys are never closed: no event is late."""


def _nullable(fields: list[pa.Field]) -> list[pa.Field]:
    return [field.with_nullable(True) for field in fields]


def _winners(name: str, opened: list[pa.Field], placed: list[pa.Field]) -> KeyedJob:
    """Each auction with its highest bid while it was open, the earliest of equal ones, once it has expired.

    `opened` has `dateTime` and `expires`, `placed` has `price` and `bidTime`.
    """
    of_auction, of_bid = ["auction", *(one.name for one in opened)], ["auction", *(one.name for one in placed)]

    def step(state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        is_auction = state["expires"].is_not_null()
        auctions = pl.concat([state.filter(is_auction).select(of_auction), events["auction"].select(of_auction)])
        came = events["bid"].rename({old: new for old, new in _BID_NAMES.items() if new in of_bid})
        bids = pl.concat([state.filter(~is_auction).select(of_bid), came.select(of_bid)])
        bids = bids.join(auctions.select("auction", TIME, "expires"), on="auction", how="left")
        best = bids.filter(pl.col("bidTime").is_between(TIME, "expires"))
        best = best.filter(pl.col("price") == pl.col("price").max().over("auction"))
        best = best.filter(pl.col("bidTime") == pl.col("bidTime").min().over("auction"))
        best = best.sort(of_bid).unique("auction", keep="first", maintain_order=True)
        is_over = pl.col("expires") <= clock.watermark
        output = auctions.filter(is_over).join(best.select(of_bid), on="auction")
        # An auction without a row here, and opened by the time of a bid, would have come: it is over.
        early = bids.filter(pl.col("expires").is_null() & (pl.col("bidTime") > clock.watermark))
        state_rows = [
            auctions.filter(~is_over).with_columns(deadline="expires"),
            best.filter(~is_over).select(*of_bid, deadline="expires"),
            early.select(*of_bid, deadline="bidTime"),
        ]
        return Step(state=pl.concat(state_rows, how="diagonal").select(state.columns), output=output)

    read = [field.name for field in BID if _BID_NAMES.get(field.name, field.name) in of_bid or field.name == TIME]
    inputs = {
        "auction": reads("auction", *of_auction[1:], auction=pl.col("id")),
        "bid": reads("bid", *read),
    }
    fields = pa.schema([*whole("auction"), *_nullable([*opened, *placed]), *times("deadline")])
    output = pa.schema([*whole("auction"), *opened, *placed])
    return KeyedJob.with_inputs(name, inputs, ("auction",), fields, output, step, **UNCOUNTED)


Q9 = _winners("q9", _AUCTION, _BID)

_PRICED = [one for one in _BID if one.name in ("price", "bidTime")]
_Q4_WINNERS = _winners("q4_winners", [*whole("category"), *times(TIME, "expires")], _PRICED)


def _averages(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    came = events.select("category", total="price", auctions=pl.lit(1, pl.Int64))
    totals = pl.concat([state, came]).group_by("category").agg(pl.col("total", "auctions").sum())
    return Step(state=totals, output=totals.select("category", average=pl.col("total") / pl.col("auctions")))


_AVERAGE = required("average", pa.float64())
Q4 = (
    _Q4_WINNERS,
    KeyedJob(
        name="q4",
        stream=JobTable.of(_Q4_WINNERS),
        key=("category",),
        event_time="expires",
        watermark_delay=timedelta(0),
        events=pa.schema([*whole("category", "price"), *times("expires")]),
        state=pa.schema(whole("category", "total", "auctions")),
        output=pa.schema([*whole("category"), _AVERAGE]),
        step=_averages,
        step_decides_late=True,
        output_mode="upsert",
        output_key=("category",),
        output_events=pl.lit(0),
        state_events=pl.col("auctions").sum(),
    ),
)

_Q6_WINNERS = _winners("q6_winners", [*whole("seller"), *times(TIME, "expires")], _PRICED)
_SOLD = pa.schema([*whole("seller", "auction", "price"), *times("expires")])


def _last_ten(state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
    sold = pl.concat([state, events["winners"]]).sort("expires", "auction")
    last = sold.group_by("seller", maintain_order=True).tail(10)
    return Step(state=last, output=last.group_by("seller").agg(average=pl.col("price").mean()))


Q6 = (
    _Q6_WINNERS,
    KeyedJob.with_inputs(
        "q6",
        {"winners": Input(JobTable.of(_Q6_WINNERS), _SOLD, "expires", conserved=False)},
        ("seller",),
        _SOLD,
        pa.schema([*whole("seller"), _AVERAGE]),
        _last_ten,
        output_mode="upsert",
        output_key=("seller",),
        **_OPEN,
    ),
)


def _with_the_row(
    name: str,
    key: str,
    events: Input,
    rows: Input,
    names: Mapping[str, str],
    output: list[pa.Field],
    event_where: pl.Expr,
    row_where: pl.Expr,
) -> KeyedJob:
    """Each event with the one row of its key, whichever comes first, however long it takes.

    Events for which `event_where` does not hold are not waited for, nor are those whose row does not fit `row_where`.
    """

    def step(state: pl.DataFrame, came: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        fits = came["rows"].with_columns(is_row=pl.lit(value=True), fits=row_where)
        # Of a row that does not fit, no more is kept than that it came.
        fits = fits.with_columns(pl.when("fits").then(pl.col(one)) for one in came["rows"].columns if one != key)
        new = came["events"].filter(event_where).rename(names, strict=False)
        waiting = pl.concat(
            [state.filter(~pl.col("is_row")), new.with_columns(is_row=pl.lit(value=False))], how="diagonal"
        )
        known = pl.concat([state.filter("is_row"), fits], how="diagonal")
        of_event = [one for one in new.columns if one != key]
        found = waiting.select(key, *of_event).join(known.filter("fits").drop(of_event), on=key)
        waiting = waiting.join(known, on=key, how="anti")
        state = pl.concat([known, waiting], how="diagonal").select(state.columns)
        return Step(state=state, output=found.select(one.name for one in output))

    of_event = [one.with_name(names.get(one.name, one.name)) for one in events.events if one.name != key]
    of_row = [one for one in rows.events if one.name != key]
    fields = [
        *whole(key),
        *_nullable([*of_event, *of_row]),
        required("is_row", pa.bool_()),
        pa.field("fits", pa.bool_()),
    ]
    inputs = {"events": events, "rows": rows}
    return KeyedJob.with_inputs(name, inputs, (key,), pa.schema(fields), pa.schema(output), step, **_OPEN)


Q3 = _with_the_row(
    "q3",
    "seller",
    reads("auction", "seller", "category", TIME, auction=pl.col("id")),
    reads("person", "name", "city", "state", TIME, seller=pl.col("id")),
    {TIME: "opened"},
    [*(PERSON.field(one) for one in ("name", "city", "state")), *whole("auction")],
    pl.col("category") == 10,
    pl.col("state").is_in(["OR", "ID", "CA"]),
)
Q20 = _with_the_row(
    "q20",
    "auction",
    reads("bid", *BID.names),
    reads("auction", *(one.name for one in _AUCTION), auction=pl.col("id")),
    _BID_NAMES,
    [*whole("auction"), *_BID, *_AUCTION],
    pl.lit(value=True),
    pl.col("category") == 10,
)

_SELLING = {
    "person": ("name", "city", "state"),
    "bid": ("auction", "price", "channel"),
    "auction": ("item", "itemName", "category"),
}
_FIELDS = [
    *(PERSON.field(one) for one in _SELLING["person"]),
    *(BID.field(one) for one in _SELLING["bid"]),
    *[*whole("item"), *(AUCTION.field(one) for one in _SELLING["auction"][1:])],
]


def _bidding_sellers(state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
    came = pl.concat([events[kind].with_columns(kind=pl.lit(kind)) for kind in _SELLING], how="diagonal")
    came = came.select(state.columns)
    both = [state.with_columns(is_new=pl.lit(value=False)), came.with_columns(is_new=pl.lit(value=True))]
    known = pl.concat(both)
    person, bid, auction = (
        known.filter(pl.col("kind") == kind).select("id", "is_new", *_SELLING[kind]) for kind in _SELLING
    )
    # Of a person who is new all bids are, since none was written.
    bid = bid.join(person.rename({"is_new": "joined"}), on="id").with_columns(pl.col("is_new") | pl.col("joined"))
    of_new = bid.filter("is_new").join(auction.drop("is_new"), on="id")
    of_old = bid.filter(~pl.col("is_new")).join(auction.filter("is_new").drop("is_new"), on="id")
    output = pl.concat([of_new, of_old]).select("id", *(one.name for one in _FIELDS))
    return Step(add=came, output=output)


Q23 = KeyedJob.with_inputs(
    "q23",
    {
        "person": reads("person", "id", TIME, *_SELLING["person"]),
        "bid": reads("bid", TIME, *_SELLING["bid"], id=pl.col("bidder")),
        "auction": reads("auction", TIME, "itemName", "category", id=pl.col("seller"), item=pl.col("id")),
    },
    ("id",),
    pa.schema([*whole("id"), required("kind", pa.string()), *_nullable(_FIELDS)]),
    pa.schema([*whole("id"), *_FIELDS]),
    _bidding_sellers,
    **_OPEN,
)
