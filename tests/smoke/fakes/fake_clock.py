"""The clock of a process on the fake GPUs, and the contexts on them. virtual_time.py has another clock."""

now = 0.0
cold = False  # whether torch has to be read from the disk


def opened(gpu: int) -> None:
    """Note that this process has a context on a GPU."""


def processes(gpu: int) -> list[int]:
    """Return the processes with a context on a GPU, as NVML would, besides those that a test names."""
    return []
