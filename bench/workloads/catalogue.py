"""All experiments of `make bench`, in the order in which they run."""

from __future__ import annotations

from bench.harness import Workload
from bench.workloads import behind, cutty, issue, language, late, library, operators, policies, slicing, state

WORKLOADS: tuple[Workload, ...] = (
    *issue.WORKLOADS,
    *behind.WORKLOADS,
    *late.WORKLOADS,
    *slicing.WORKLOADS,
    *state.WORKLOADS,
    *cutty.WORKLOADS,
    *language.WORKLOADS,
    *library.WORKLOADS,
    *operators.WORKLOADS,
    *policies.WORKLOADS,
)
