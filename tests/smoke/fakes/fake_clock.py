"""The clock of a process that runs on the fake GPUs, and what the driver notes of it; virtual_time.py has another."""

now = 0.0
cold = False  # whether torch has to be read from the disk


def opened(gpu: int) -> None:
    """Note that this process has a context on a GPU."""


def processes(gpu: int) -> list[int]:
    """Who has a context there, as NVML says, besides those that a test names."""
    return []
