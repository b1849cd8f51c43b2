"""The page docs/first-real-run.md: the checklists of `gpu-ci verify`, with the steps that a person takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpu_ci.cli.verify import eks, google, gpu
from gpu_ci.cli.verify.checklist import Step
from gpu_manager.verify import steps as manager

_SECTIONS: Sequence[tuple[str, str, Sequence[Step[Any]]]] = (
    ("Google Cloud", "gpu-ci verify google Pulumi.staging.yaml", google.STEPS),
    ("EKS", "gpu-ci verify eks Pulumi.staging.yaml", eks.STEPS),
    ("The runner manager", "gpu-ci verify manager --app-key manager-app.pem", manager.STEPS),
    ("One GPU machine", "gpu-ci verify gpu", gpu.STEPS),
)


_INTRODUCTION = """\
# The first real run

Generated from the checklists ([pools](../components/gpu_ci/cli/verify), [manager](../manager/gpu_manager/verify)) by
`make docs`; a test fails when it is stale.

The commands `gpu-ci` and `gpu-smoke` are in `.venv/bin` after `make up`: `. .venv/bin/activate` puts them on the PATH.
Work through the table of your target before and during the first `pulumi up` on a real account. `gpu-ci verify`
answers the steps marked *verify* and changes nothing. It prints a line for each step, and writes all answers to one
file. Secrets, account numbers and e-mail addresses are removed from that file, so that you can attach it to an issue.
The exit code is 1 where a step failed or could not be asked.

What was seen on real GPUs is in [bench/results](../bench/results). No step has been taken on a real Google Cloud
project or EKS cluster yet: the checklists were tested against emulations ([what these enforce](emulation.md)).
"""


def page() -> Iterator[str]:
    yield from _INTRODUCTION.splitlines()
    for title, command, steps in _SECTIONS:
        yield ""
        yield f"## {title}"
        yield ""
        yield "```sh"
        yield command
        yield "```"
        yield ""
        yield "| step | command | expected | otherwise | by |"
        yield "|---|---|---|---|---|"
        for step in steps:
            cells = (step.name, f"`{step.command}`", step.expected, step.otherwise, "verify" if step.ask else "you")
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""
