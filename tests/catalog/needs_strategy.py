"""A Hypothesis strategy for needs of every kind. Some machine meets most of them."""

from __future__ import annotations

import gpu_catalog as catalog
from gpu_catalog.needs import DTYPES, Needs
from hypothesis import strategies as st


def _now_and_then(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(st.none(), st.none(), values)


needs = st.builds(
    Needs,
    gpu_memory_gib=st.sampled_from([0, 2, 8, 16, 24, 40, 80, 141, 180]),
    gpu_count=st.sampled_from([0.1, 0.5, 1, 1, 1, 2, 4, 8]),
    compute_capability=st.sampled_from(["", "", "7.0", "8.0", "8.9", "9", "10.0", "12.0"]),
    dtype=_now_and_then(st.sampled_from(DTYPES)),
    budget_usd_per_hour=_now_and_then(st.floats(0.1, 150)),
    market=_now_and_then(st.sampled_from(catalog.MARKETS)),
    cloud=_now_and_then(st.sampled_from(catalog.CLOUDS)),
    region=_now_and_then(st.sampled_from(catalog.regions())),
    architecture=_now_and_then(st.sampled_from(["x86_64", "arm64"])),
    memory_gib=st.sampled_from([0, 0, 16, 64, 500]),
    torch=st.sampled_from(["", "", "", "2.15.0", "2.14.0+cu126", "2.9.1"]),
    vcpus=st.sampled_from([0, 0, 8, 48]),
)
