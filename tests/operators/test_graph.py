"""Port modes and the graph check (SPEC G-20 to G-22): which streams are punctuated, and errors that name the path."""

from __future__ import annotations

import pytest

import panes as pn
from panes.errors import QueryError
from panes.operators import InputPort, Model, OutputPort, Use, count, punct, sliding, tumbling
from panes.operators.aggregate import AGGREGATE
from panes.operators.join import JOIN
from panes.operators.models import TUMBLING_FORMS, Wire, Wired, check_graph, check_node, missing, source

FUNCTOR = Model("Functor", (InputPort("in"),), (OutputPort("out", "preserving", "in"),))
UNION = Model("Union", (InputPort("in"),), (OutputPort("out", "preserving", "in"),))
EXPECTING = Model("Report", (InputPort("in", mode="expecting"),), (OutputPort("out"),))


def is_punctuated(wire: Wire) -> bool:
    return missing(wire) is None


def join(name: str = "Join") -> Wire:
    return Wired(name, Use(JOIN), {"left": [source("a").out()], "right": [source("b").out()]}).out("matches")


def functor(*wires: Wire, name: str = "Functor") -> Wire:
    return Wired(name, Use(FUNCTOR), {"in": wires}).out()


def aggregate(*wires: Wire, window: object = None) -> Wired:
    clause = tumbling(punct()) if window is None else window
    return Wired("Aggregate", Use(AGGREGATE, {"in": clause}), {"in": wires})  # type: ignore[dict-item]


def test_modes_say_which_streams_are_punctuated() -> None:
    assert not is_punctuated(source("file").out())
    assert is_punctuated(join())
    assert not is_punctuated(join().node.out("left"))  # rows without a partner, on a port of their own
    assert is_punctuated(functor(join()))
    assert is_punctuated(functor(functor(join())))
    assert not is_punctuated(functor(source("file").out()))
    assert not is_punctuated(functor(join(), join("Join 2")))
    assert is_punctuated(aggregate(join()).out())  # it generates its own, whatever it reads


@pytest.mark.parametrize(
    "node",
    [
        aggregate(join()),
        aggregate(functor(join())),
        aggregate(source("file").out(), window=tumbling(count(3))),  # oblivious unless its window is punctuated
        aggregate(join(), join("Join 2"), window=tumbling(count(3))),
        Wired("Report", Use(EXPECTING), {"in": [join()]}),
    ],
    ids=["join", "join through a functor", "count", "two streams into a count", "expecting"],
)
def test_a_valid_graph_is_accepted(node: Wired) -> None:
    check_graph([node])
    check_node(node)


@pytest.mark.parametrize(
    ("node", "path"),
    [
        (aggregate(source("file").out()), r"on the path file -> Aggregate.in: file gives none"),
        (aggregate(functor(source("file").out())), r"on the path file -> Functor -> Aggregate.in: file gives none"),
        (aggregate(join(), join("Join 2")), r"it reads 2: Join.matches, Join 2.matches"),
        (
            aggregate(functor(join(), join("Join 2"))),
            r"on the path Functor -> Aggregate.in: Functor passes on those of its input 'in', which reads 2 streams",
        ),
        (
            aggregate(functor(functor(join(), join("Join 2"), name="Union"))),
            r"on the path Union -> Functor -> Aggregate.in: Union passes on",
        ),
        (aggregate(join().node.out("right")), r"on the path Join.right -> Aggregate.in: Join.right gives none"),
        (Wired("Report", Use(EXPECTING), {"in": [source("file").out()]}), r"Report, input 'in': it expects them"),
        (Wired("Report", Use(EXPECTING), {}), r"but it reads 0: none"),
    ],
)
def test_what_breaks_is_named_with_its_path(node: Wired, path: str) -> None:
    with pytest.raises(QueryError, match=path):
        check_node(node)


def test_the_whole_graph_is_looked_at() -> None:
    """Also what stands behind a node that is fine by itself."""
    broken = aggregate(source("file").out())
    with pytest.raises(QueryError, match="file -> Aggregate"):
        check_node(aggregate(broken.out()))


def trades() -> pn.stream:
    return pn.stream([{"ts": 1, "id": 1, "v": 2}], time="ts")


def test_streams_are_checked_when_they_are_made() -> None:
    plain = trades()
    punctuated = plain.match(trades(), window=sliding(count(3)), using="id")
    window = tumbling(punct())
    punctuated.aggregate(window=window, n="count(*)")
    punctuated.where("id > 0").select("id").key_by("id").aggregate(window=window, n="count(*)")
    with pytest.raises(QueryError, match=r"path list of 1 rows -> Aggregate.in: list of 1 rows gives none"):
        plain.aggregate(window=window, n="count(*)")
    both = pn.merge(punctuated.select("id"), punctuated.select("id"))
    with pytest.raises(QueryError, match=r"Merge -> Sort.in: Merge passes on .* which reads 2 streams, not one"):
        both.sort("id", window=window)
    with pytest.raises(QueryError, match=r"-> Dedupe.in"):
        plain.dedupe("id", window=window)
    plain.punctuate("v > 1").dedupe("id", window=window).sort("id", window=window)


def test_a_table_of_results_carries_none() -> None:
    hours = trades().window(pn.tumbling(10)).agg(n="count(*)").stream()
    with pytest.raises(QueryError, match="a query over list of 1 rows gives none"):
        hours.aggregate(window=tumbling(punct()), total="sum(n)")


def test_models_are_checked_themselves() -> None:
    with pytest.raises(QueryError, match="two inputs have the same name"):
        Model("Odd", (InputPort("in"), InputPort("in")), ())
    with pytest.raises(QueryError, match="preserves= says whose"):
        Model("Odd", (InputPort("in"),), (OutputPort("out", "preserving"),))
    with pytest.raises(QueryError, match="preserves='on' is none of its inputs"):
        Model("Odd", (InputPort("in", TUMBLING_FORMS),), (OutputPort("out", "preserving", "on"),))
