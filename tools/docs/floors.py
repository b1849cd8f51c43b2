"""Writes the page docs/reference/gpu-floors.md: the lowest speeds that gpu-smoke accepts (the floors)."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_catalog.data_files import document
from gpu_smoke.data import gpus
from gpu_smoke.data.gpus import GPUS, Figure, Speed


def page() -> Iterator[str]:
    """Return the lines of the page."""
    yield "# How fast a GPU must be"
    yield ""
    yield "Generated from `catalog/gpu_catalog/data/gpu_speeds.json` by `make docs`; a test fails if it is not current."
    yield "gpu-smoke measures matrix products, and copies in the GPU's memory and between GPU and host."
    yield "A speed below the warning limit is a warning. A speed below the floor fails the GPU."
    yield "How floors are used: [speed](../how-it-works/gpu-checks.md#speed)."
    yield "How to measure your own: [history and your own floors](../guides/gpu-history.md)."
    yield "This project measured the speeds of the H100 and the H200, on machines outside its pools."
    yield ""
    yield f"The warning limit is {gpus.WARN:.2f} of the lowest published measurement."
    yield f"The floor is {gpus.FAIL:.2f} of that measurement if several parties measured,"
    yield f"and {gpus.FAIL_ONE_PARTY:.2f} if only one party measured."
    yield ""
    yield "A measurement counts if its number format and matrix size are those that the check times (column *timed*)."
    yield "For some GPUs, the published measurements are for the fastest matrix size only (*best size* in the table)."
    yield f"Then {gpus.BEST_SIZE:.2f} of the measurement counts, because GPUs with measurements of both sizes reach at"
    yield "least this part of it at the size of the check."
    yield ""
    yield "The columns *from* list the measurements with their sources. *theory* means that no measurement counts."
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
    yield "GPUs that are not in the table, and speeds marked *theory*, are compared with the theoretical maximum, which"
    yield "is computed from what CUDA reports about the GPU. The floors are then:"
    yield ""
    yield f"- products: {gpus.THEORY_GEMM:.2f} of multiprocessors x clock x FLOP per clock"
    yield f"- copies: {gpus.THEORY_COPY:.2f} of twice the memory clock x the width of the memory bus"
    yield ""
    yield "A GPU that is not in the table always gets a warning, even if it is faster than these floors."
    yield ""
    yield "FLOP of one multiprocessor per clock, by compute capability:"
    yield ", ".join(f"{flop} ({capability})" for capability, flop in gpus.FLOP_PER_CLOCK.items()) + "."
    yield ""
    yield f"The memory is complete if its size is {gpus.MEMORY:.2f} of the nominal size or more."
    yield "An all-reduce of 256 MiB over eight GPUs warns below"
    yield ", ".join(f"{floor:g} GB/s ({GPUS[key].names[0]})" for key, floor in gpus.ALLREDUCE.items()) + "."
    yield ""
    yield "| source | what it is |"
    yield "|---|---|"
    yield from (f"| {name} | {text} |" for name, text in document("gpu_speeds")["measured_by"].items())
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
