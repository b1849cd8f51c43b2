"""Errors for unknown names. They suggest the most similar known name."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_common import suggest


class UnknownName(LookupError):  # noqa: N818 - the name describes the error
    """An error for a name that the catalog does not have. `near` is the most similar known name, or empty."""

    kind = "name"

    def __init__(self, name: str, candidates: Iterable[str] = (), hint: str = "") -> None:
        self.name = name
        self.near = closest(name, candidates)
        self.hint = hint or (f"did you mean {self.near}?" if self.near else "")
        super().__init__(f"unknown {self.kind} {name!r}" + (f"; {self.hint}" if self.hint else ""))


class UnknownMachine(UnknownName):
    kind = "machine type with a GPU"


class UnknownGpu(UnknownName):
    kind = "GPU"


class UnknownAccelerator(UnknownName):
    kind = "accelerator that n1 takes"


class UnknownMarket(UnknownName):
    kind = "market"


class UnknownSource(UnknownName):
    kind = "source"


class DoesNotFit(LookupError):  # noqa: N818 - as above
    """An error for an N1 machine that cannot have these GPUs.

    The number of GPUs is wrong, or the machine has too many vCPUs or GiB of memory for them.
    """


def closest(name: str, candidates: Iterable[str]) -> str:
    """Return the known name most similar to the given one, or an empty text."""
    return suggest.closest(name.lower(), sorted(set(candidates)))


def similar(name: str, candidates: Iterable[str]) -> dict[str, float]:
    """Return the known names similar to the given one, each with its similarity."""
    import difflib

    alike = {each: difflib.SequenceMatcher(None, each, name.lower()).ratio() for each in candidates}
    return {each: ratio for each, ratio in alike.items() if ratio >= suggest.CUTOFF}
