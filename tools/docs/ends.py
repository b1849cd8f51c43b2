"""The page docs/reference/runner-ends.md: each way a runner's machine can end."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_agent.outcomes import OUTCOMES
from gpu_ci.gcp.gate.messages import NEXT_STEPS


def page() -> Iterator[str]:
    yield "# How a runner's machine ends"
    yield ""
    yield "Generated from [outcomes.py](../../agent/gpu_agent/outcomes.py), and the hints of a check that fails"
    yield "([messages.py](../../components/gpu_ci/gcp/gate/messages.py)), by `make docs`."
    yield "Where to read the reason: [a VM ended](../operate/ended-vm.md)."
    yield "What happens before: [a runner VM](../how-it-works/runner-machine.md)."
    yield ""
    yield "| reason | what it means | what to do | stops the pool |"
    yield "|---|---|---|---|"
    for end in OUTCOMES.values():
        stops = "yes" if end.stops_pool else ""
        yield f"| `{end.reason}` | {end.meaning} | {NEXT_STEPS.get(end.reason, end.next_step)} | {stops} |"
    yield ""
    yield "**Stops the pool** (`stops_pool` in the report): the next machine would end the same way. Whatever starts"
    yield "machines for the pool has to stop until somebody mends it; nothing here starts any yet."
    yield ""
