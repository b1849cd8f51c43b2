"""Rules about the driver and torch of a machine.

A driver source is an image, an add-on or an installer that brings the driver (`setup.DriverSource`). A driver branch is
the first number of a driver's version, such as 580. `gpu_smoke.compat.rules` decides which GPU, driver and torch work
together.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_smoke.compat import rules
from gpu_smoke.compat.data import BRANCHES

from . import data_files, queries
from .setup import Change, Finding, Setup, changes, cited, driver_source, driver_sources_for, machines_like, origin

PREFERRED_BRANCH = rules.PREFERRED_BRANCH
"""The driver branch with long-term support. It is the first choice if the driver has to change."""


def findings(setup: Setup) -> Iterator[Finding]:
    """Yield every finding about the driver and torch."""
    yield from _source(setup)
    yield from _table(setup)
    yield from _driver_and_torch(setup)


def unknown(setup: Setup) -> Iterator[str]:
    """Yield a sentence for each fact about the driver and torch that could not be checked."""
    if setup.driver_source and setup.branch is None:
        yield f"the driver branch of {setup.driver_source} is unknown"
    branch, card = setup.branch, setup.machine.gpu
    first = card.first_driver_branch
    if branch and first and branch < first and "first_driver_branch" in card.uncertain:
        yield rules.unconfirmed_first_branch(branch, card.name, first)
    if setup.python and not setup.torch:
        yield f"Python {'.'.join(map(str, setup.python))} was not checked, because no torch was chosen"
    yield from _gpu_driver_and_torch(setup).unknown


def _source(setup: Setup) -> Iterator[Finding]:
    """Yield a finding if the driver source does not support the cloud, the architecture or the driver branch."""
    if not setup.driver_source:
        return
    source, machine = driver_source(setup.driver_source), setup.machine
    others = changes("driver_source", [each.name for each in driver_sources_for(machine)])
    if machine.cloud not in source.clouds:
        text = f"{source.name} exists only on {' and '.join(source.clouds)}, but {machine.key} is on {machine.cloud}"
        yield Finding("source.cloud", "driver_source", text, cited(source.sources), others)
    elif machine.architecture not in source.architectures:
        text = f"{source.name} is for {' and '.join(source.architectures)}, but {machine.key} is {machine.architecture}"
        yield Finding("source.architecture", "driver_source", text, cited(source.sources), others)
    elif setup.driver_branch and source.branches is not None and setup.driver_branch not in source.branches:
        has = ", ".join(map(str, source.branches))
        text = f"{source.name} has no driver of branch {setup.driver_branch}: it has {has} ({source.what})"
        own = changes("driver_branch", sorted(source.branches, key=_preferred_first))
        yield Finding("source.no-branch", "driver_branch", text, cited(source.sources), (*own, *others))


def _table(setup: Setup) -> Iterator[Finding]:
    """Yield the findings of the rules in driver_rules.json."""
    oses = {each.ami_type: each.os for each in queries.ami_types()} if setup.ami_type else {}
    facts = {
        "families": setup.machine.family,
        "clouds": setup.machine.cloud,
        "driver_sources": setup.driver_source,
        "branches": setup.branch,
        "modules": setup.kernel_module,
        "ami_oses": oses.get(setup.ami_type or ""),
    }
    for row in data_files.rows("driver_rules"):
        if row.get("fraction") and setup.machine.gpu_count >= 1:
            continue
        if all(fact in row[name] for name, fact in facts.items() if name in row):
            instead = tuple(row["instead"])
            yield Finding(row["rule"], row["choice"], row["text"], cited(row["sources"]["text"]), instead)


def _driver_and_torch(setup: Setup) -> Iterator[Finding]:
    verdict, card, branch = _gpu_driver_and_torch(setup), setup.machine.gpu, setup.branch
    first = card.first_driver_branch if "first_driver_branch" not in card.uncertain else None
    too_old = False
    if branch and first and branch < first:
        too_old = True
        text = rules.too_old(branch, f"the {card.name}", first)
        yield Finding("driver.before-gpu", "driver_branch", text, origin(card, "first_driver_branch"), _drivers(setup))
    for problem in verdict.problems:
        if too_old and problem.rule == "driver.before-gpu":
            continue  # the finding above is more exact: it is about the GPU, this one is about the GPU's architecture
        choice = "kernel_module" if problem.rule == "driver.module" else problem.rule.partition(".")[0]
        choice = {"driver": "driver_branch"}.get(choice, choice)
        yield Finding(problem.rule, choice, problem.text, problem.source, tuple(_fixes(setup, choice, verdict)))


def _gpu_driver_and_torch(setup: Setup) -> rules.Verdict:
    if not setup.machine.gpu.compute_capability:
        return rules.Verdict()
    # A fraction of a GPU has another driver, so rules about kernel modules of whole GPUs do not apply.
    module = None if setup.machine.gpu_count < 1 else setup.kernel_module
    capability, architecture = setup.machine.gpu.compute_capability, setup.machine.architecture
    return rules.check(capability, setup.branch, setup.torch, machine=architecture, module=module, python=setup.python)


def _fixes(setup: Setup, choice: str, verdict: rules.Verdict) -> Iterator[Change]:
    """Yield changes that may solve a problem of this choice, the smallest first."""
    nearest = verdict.nearest  # the combination of driver branch and torch that works and differs least
    if choice == "kernel_module":
        arch = rules.arch_of(setup.machine.gpu.compute_capability)
        yield from changes("kernel_module", arch.modules if arch else ())
    if nearest and nearest.torch and (choice == "torch" or nearest.branch == setup.branch):
        yield {"torch": nearest.torch}
    yield from _drivers(setup)
    if choice == "torch":
        yield from changes("machine", machines_like(setup.machine))


def _drivers(setup: Setup) -> tuple[Change, ...]:
    """Return changes of the driver: other branches of the same driver source, then other driver sources.

    Of each source, PREFERRED_BRANCH comes first.
    """
    if not setup.driver_source:
        return changes("driver_branch", sorted(BRANCHES, key=_preferred_first))
    own = driver_source(setup.driver_source).branches or sorted(BRANCHES)
    others = [each for each in driver_sources_for(setup.machine) if each.name != setup.driver_source]
    return (
        *changes("driver_branch", sorted(own, key=_preferred_first)),
        *(
            {"driver_source": other.name, "driver_branch": branch}
            for other in others
            for branch in sorted(other.branches or (), key=_preferred_first)
        ),
    )


def _preferred_first(branch: int) -> tuple[bool, int]:
    return branch != rules.PREFERRED_BRANCH, branch
