"""What a question about something unknown is answered with: the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_common import suggest


class UnknownName(LookupError):  # noqa: N818 - it reads as what it is where it is caught
    """No row has that name. `near` is the closest one there is, empty when none is close."""

    kind = "name"

    def __init__(self, name: str, candidates: Iterable[str] = (), hint: str = "") -> None:
        self.name = name
        self.near = closest(name, candidates)
        self.hint = hint or (f"did you mean {self.near}?" if self.near else "")
        super().__init__(f"no {self.kind} {name!r}" + (f"; {self.hint}" if self.hint else ""))


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
    """There is no such N1 machine: a number of GPUs nobody sells, or too large a machine for them."""


def closest(name: str, candidates: Iterable[str]) -> str:
    """The known name nearest to the one given, or nothing."""
    return suggest.closest(name.lower(), sorted(set(candidates)))


def similar(name: str, candidates: Iterable[str]) -> dict[str, float]:
    """The known names that are like the one given, and how much."""
    import difflib

    alike = {each: difflib.SequenceMatcher(None, each, name.lower()).ratio() for each in candidates}
    return {each: ratio for each, ratio in alike.items() if ratio >= suggest.CUTOFF}
