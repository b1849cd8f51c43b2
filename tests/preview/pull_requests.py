"""Pull requests that change the stack in stack/, each with the expected result of `gpu-ci preview`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STAGING = "Pulumi.staging.yaml"
POOL = "components/gpu_ci/kinds/gce/component.py"
CHECKED_TEMPLATE = "components/gpu_ci/gcp/pool/checked_template.py"


@dataclass(frozen=True)
class PullRequest:
    """One change of the repository. `edit` changes the files in the repository's folder."""

    name: str
    edit: Callable[[Path], None]
    exit_code: int
    counts: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Created, updated, replaced, deleted."""
    moved: int = 0
    stack: str = "staging"


def replace(file: str, *pairs: tuple[str, str]) -> Callable[[Path], None]:
    """Return an edit that replaces texts in a file. Each old text must occur exactly once."""

    def edit(folder: Path) -> None:
        path = folder / file
        text = path.read_text()
        for old, new in pairs:
            assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
            text = text.replace(old, new)
        path.write_text(text)

    return edit


def staging(*pairs: tuple[str, str]) -> Callable[[Path], None]:
    return replace(STAGING, *pairs)


def add(file: str, text: str) -> Callable[[Path], None]:
    """Return an edit that appends a text to a file, or creates the file."""

    def edit(folder: Path) -> None:
        path = folder / file
        path.write_text((path.read_text() if path.exists() else "") + text)

    return edit


def cut(file: str, first: str, end: str) -> Callable[[Path], None]:
    """Return an edit that removes everything from one text up to another."""

    def edit(folder: Path) -> None:
        path = folder / file
        text = path.read_text()
        start = text.index(first)
        path.write_text(text[:start] + text[text.index(end, start) :])

    return edit


def several(*edits: Callable[[Path], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        for each in edits:
            each(folder)

    return edit


def copied(source: str, target: str) -> Callable[[Path], None]:
    return lambda folder: (folder / target).write_text((folder / source).read_text()) and None


def removed(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).unlink()


NEW_POOL = """    l4-large:
      kind: gce-runners
      machineType: g2-standard-16
      zones: [us-central1-a, us-central1-b]
      market: spot
      max: 2
      runnerLabels: [self-hosted, gpu, l4-large]
"""
T4 = "    t4:\n"
L4_MAX = "      max: 4\n"
# Gives each machine an address. Python does not evaluate the list after `or`.
PUBLIC = "network_interfaces=[{'accessConfigs': [{}], 'network': 'default'}] or ["

PULL_REQUESTS = (
    PullRequest("docs-only", add("README.md", "\nOne more line.\n"), 0),
    PullRequest("pool-added", staging((T4, NEW_POOL + T4)), 2, (6, 0, 0, 0)),
    PullRequest("pool-removed", cut(STAGING, T4, "  gpu-ci:github:"), 3, (0, 0, 0, 6)),
    PullRequest("machine-changed", staging(("g2-standard-8", "g2-standard-16")), 3, (0, 1, 2, 0)),
    PullRequest("zones-fewer", staging((", us-central1-c]", "]")), 3, (0, 1, 1, 0)),
    PullRequest("max-raised", staging((L4_MAX, "      max: 12\n")), 2),
    PullRequest("labels-changed", staging(("team: platform", "team: compilers")), 3, (0, 2, 4, 0)),
    PullRequest(
        "secret-rotated-and-repository-let-in",
        staging(
            ("secrets/registry-token", "secrets/registry-token-2"),
            ("repositories: [kernels]", "repositories: [kernels, website]"),
        ),
        2,
        (0, 2, 0, 0),
    ),
    PullRequest("rules-removed", cut(STAGING, "    rules:\n", "# The passphrase"), 3, (0, 0, 0, 2)),
    PullRequest(
        "gate-removed",
        several(
            replace(CHECKED_TEMPLATE, ("    return SmokeGate(\n", "    return template\n    return SmokeGate(\n")),
            replace(
                POOL,
                ("self._group(name, args, gate.checked_template)", "self._group(name, args, gate.self_link)"),
                ("self.template = gate.checked_template", "self.template = gate.self_link"),
                ("self.verdict = gate.verdict", 'self.verdict = pulumi.Output.from_input("pass")'),
                ("self.smoke_summary = gate.summary", 'self.smoke_summary = pulumi.Output.from_input("")'),
            ),
        ),
        3,
        (0, 0, 0, 2),
    ),
    PullRequest(
        "public-address",
        replace("components/gpu_ci/gcp/machine/template.py", ("network_interfaces=[", PUBLIC)),
        4,
        (0, 2, 4, 0),
    ),
    PullRequest(
        "renamed-with-alias",
        replace(
            POOL,
            (
                'f"{name}-log-writer", "roles/logging.logWriter", account, args.project, self.child()\n',
                (
                    'f"{name}-logs", "roles/logging.logWriter", account, args.project,\n            '
                    'self.child(aliases=[pulumi.Alias(name=f"{name}-log-writer")]),\n'
                ),
            ),
        ),
        2,
        (0, 0, 0, 0),
        2,
    ),
    PullRequest(
        "syntax-error", replace("components/gpu_ci/program/pools.py", ("def build(specs", "def build(specs:::")), 1
    ),
    PullRequest("bad-value", staging(("g2-standard-8", "g2-standart-8"), ("market: standard", "market: sopt")), 1),
    PullRequest("broken-yaml", staging(("market: standard\n", "market: [standard\n")), 1),
    PullRequest("stack-removed", removed(STAGING), 3),
    PullRequest("stack-added", copied(STAGING, "Pulumi.dev.yaml"), 2, (19, 0, 0, 0), stack="dev"),
)
