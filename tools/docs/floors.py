"""The page of the floors that gpu-smoke judges speeds by, from its own table."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_smoke.data.gpus import ALLREDUCE, FAIL, GPUS, MEMORY, SOURCES, WARN, Speed


def page() -> Iterator[str]:
    """The lines of the page."""
    yield "# How fast a GPU must be"
    yield ""
    yield "Generated from `smoke/gpu_smoke/data/gpus.py` by `make docs`; a test fails when it is stale."
    yield "How they are used: [what gpu-smoke checks](gpu-checks.md#speed)."
    yield "How to have floors of your own: [measure, and record](gpu-checks.md#floors-of-your-own)."
    yield "Those of the H100 and the H200 were measured by this project, on machines that were no pool of its own."
    yield ""
    yield f"A speed below {WARN:.2f} of the lowest credible measurement warns, below {FAIL:.2f} it fails."
    yield "What one party alone has measured only warns, and has no second figure."
    yield ""
    yield "| GPU | timed | products, TFLOPS: warn, fail | from | copies, GB/s: warn, fail | from | host, GB/s: warn |"
    yield "|---|---|---|---|---|---|---|"
    for gpu in GPUS.values():
        cells = [
            ", ".join(gpu.names),
            f"{gpu.dtype}, {gpu.n}",
            _floors(gpu.gemm),
            ", ".join(gpu.gemm.sources),
            _floors(gpu.copy),
            ", ".join(gpu.copy.sources),
            f"{gpu.host:g} (aznhc)" if gpu.host else "",
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield f"Memory is all there from {MEMORY:.2f} of the nominal size on."
    yield "An all-reduce of 256 MiB over eight GPUs warns below"
    yield ", ".join(f"{floor:g} GB/s ({GPUS[key].names[0]})" for key, floor in ALLREDUCE.items()) + "."
    yield ""
    yield "| source | what it is |"
    yield "|---|---|"
    yield from (f"| {name} | {text} |" for name, text in SOURCES.items())
    yield ""


def _floors(speed: Speed) -> str:
    return f"{speed.lowest * WARN:.4g}" + ("" if speed.alone else f", {speed.lowest * FAIL:.4g}")
