"""Writes the page docs/reference/gpu-floors.md: the lowest speeds that gpu-smoke accepts (the floors)."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_smoke.data import gpus
from gpu_smoke.data.gpus import GPUS, Figure, Speed


def page() -> Iterator[str]:
    """Return the lines of the page."""
    yield "# How fast a GPU must be"
    yield ""
    yield "Generated from `smoke/gpu_smoke/data/gpus.py` by `make docs`; a test fails if this page is not current."
    yield "gpu-smoke warns of a GPU below its warning limit, and fails a GPU below its floor."
    yield "How floors are used: [how gpu-smoke judges speed](../how-it-works/gpu-speed.md)."
    yield "How to measure your own: [history and your own floors](../guides/gpu-history.md)."
    yield "This project measured the speeds of the H100 and the H200, on machines outside its pools."
    yield ""
    yield f"gpu-smoke warns below {gpus.WARN:.2f} of the lowest published measurement."
    yield f"It fails below {gpus.FAIL:.2f} of that measurement if several parties measured,"
    yield f"and below {gpus.FAIL_ONE_PARTY:.2f} if only one party measured."
    yield ""
    yield "A measurement counts for the format and the matrix size that the check times."
    yield "Some GPUs have published measurements only for the best size that was found. Then"
    yield f"{gpus.BEST_SIZE:.2f} of the measurement counts: GPUs that were measured in both sizes reach this share."
    yield ""
    yield "| GPU | timed | products, TFLOPS: warn, fail | from | copies, GB/s: warn, fail | from | host, GB/s: warn |"
    yield "|---|---|---|---|---|---|---|"
    for gpu in GPUS.values():
        cells = [
            ", ".join(gpu.names),
            f"{gpu.dtype}, {gpu.n}",
            _floors(gpu.gemm),
            _figures(gpu.products),
            _floors(gpu.copy),
            _figures(gpu.copies),
            f"{gpu.host:g} (aznhc)" if gpu.host else "",
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield "Other GPUs, and those without a measurement, are compared with their theoretical speed, from CUDA's data."
    yield f"Products fail below {gpus.THEORY_GEMM:.2f} of multiprocessors x clock x FLOP per clock."
    yield f"Copies fail below {gpus.THEORY_COPY:.2f} of twice the memory clock x the width of its bus."
    yield "A higher speed is reported with a warning."
    yield "FLOP of one multiprocessor per clock, by compute capability:"
    yield ", ".join(f"{flop} ({capability})" for capability, flop in gpus.FLOP_PER_CLOCK.items()) + "."
    yield ""
    yield f"The memory is complete if its size is {gpus.MEMORY:.2f} of the nominal size or more."
    yield "An all-reduce of 256 MiB over eight GPUs warns below"
    yield ", ".join(f"{floor:g} GB/s ({GPUS[key].names[0]})" for key, floor in gpus.ALLREDUCE.items()) + "."
    yield ""
    yield "| source | what it is |"
    yield "|---|---|"
    yield from (f"| {name} | {text} |" for name, text in gpus.SOURCES.items())
    yield ""


def _floors(speed: Speed | None) -> str:
    if speed is None:
        return "theory"
    return ", ".join(f"{speed.lowest * share:.4g}" for share in (speed.warn, speed.fail))


def _figures(figures: tuple[Figure, ...]) -> str:
    """Return each measurement with its source and its size."""
    ordered = sorted(figures, key=lambda figure: figure.value)
    return ", ".join(f"{figure.value:g} ({figure.source}{_size(figure)})" for figure in ordered)


def _size(figure: Figure) -> str:
    return f" at {figure.n}" if figure.n else ", best size" if figure.dtype else ""
