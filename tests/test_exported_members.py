"""The public surface: what `import panes as pn` offers, and that all of it is real and documented."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import panes as pn

DOCS = Path(__file__).parents[1] / "docs"

PUBLIC = """
    stream merge join arrival socket_source replay sql
    tumbling sliding session cumulate landmark fixed fixed_band punctuated delta threshold rows
    on_change once_per_instant policy policies operators
    ContextFreeWindow DeterministicWindow FreeFormWindow WindowDue WindowEvents
    count sum avg min max min_count max_count range product geometric_mean stddev variance
    arg_min arg_max first last m4 collect_list string_agg
    count_distinct approx_count_distinct median quantile quantiles mode percentile_approx
    any_value bool_and bool_or bit_and bit_or bit_xor count_if collect_set histogram_numeric try_sum try_avg
    corr covar_pop covar_samp regr skewness kurtosis
    UserAggregate aggregate
    spark spark_snapshot progress watch
    errors testing __version__
""".split()


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(pn.__all__) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_can_be_used(name: str) -> None:
    assert getattr(pn, name) is not None
    assert name in dir(pn)


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "__version__"])
def test_every_name_says_what_it_is_for(name: str) -> None:
    assert (getattr(pn, name).__doc__ or "").strip()


def test_every_name_is_in_the_docs() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    missing = [name for name in PUBLIC if name != "__version__" and not re.search(rf"\bpn\.{name}\b", text)]
    assert missing == []


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="tumblig"):
        _ = pn.tumblig


def test_a_star_import_brings_the_public_names() -> None:
    code = "from panes import *; tumbling; stream; UserAggregate"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("before", ["panes.api.stream", "panes.plan.query", "panes.connectors.sources"])
def test_names_do_not_depend_on_what_was_imported_before(before: str) -> None:
    """No module may bind its own name where a function of `pn` belongs, whoever imports it first."""
    code = f"import {before}, panes; assert callable(panes.stream), panes.stream"
    subprocess.run([sys.executable, "-c", code], check=True)
