"""The table of rules. docs/reference/preview-dangers.md is generated from it, and each danger names one of them."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_common.secret_patterns import redact

from .. import phrases
from ..engine.states import Change
from ..model import Finding, Severity

# A finding is a sentence or two; what a program puts into a name may be a book.
_READ, _LONGEST = 10_000, 600


@dataclass(frozen=True)
class Rule:
    """One sort of danger."""

    name: str
    severity: Severity
    what: str
    """When it is found, in a sentence."""
    hint: str
    """What a reviewer does about it."""
    source: str
    """Where it is told that this is dangerous."""

    def found(self, change: Change, text: str, hint: str = "") -> Finding:
        """A finding about one resource. Nothing that looks like a secret is in its text."""
        return self.of(text, hint, change.resource.urn, change.resource.component)

    def of(self, text: str, hint: str = "", urn: str = "", component: str = "") -> Finding:
        return Finding(
            rule=self.name,
            severity=self.severity,
            text=shortened(redact(text[:_READ]), _LONGEST),
            hint=hint or self.hint,
            urn=urn,
            component=component,
        )


def shortened(value: object, longest: int = 80) -> str:
    """A value as a part of a sentence, on one line."""
    text = " ".join(str(value)[: 4 * longest].split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


INTERRUPTS_JOBS = Rule(
    "interrupts-jobs",
    Severity.DANGER,
    "What runs jobs is deleted or replaced, or its machines are, while jobs may run on them.",
    "merge it when nothing runs there, or make a second one first and let this one run empty",
    "the cloud's own words on the deletion, beside each type below",
)
SECRET_EXPOSED = Rule(
    "secret-exposed",
    Severity.DANGER,
    "A value that was secret is plain now, or something is no longer encrypted or loses the key of its own.",
    "keep it secret; what once was in a state or a log in plain text has to be changed where it is valid",
    "www.pulumi.com/docs/iac/concepts/secrets/: a plain value is plain text in the state, in diffs and in outputs",
)
PUBLIC = Rule(
    "public",
    Severity.DANGER,
    "Something can be reached or read from the whole Internet that could not before.",
    "name the addresses, accounts or repositories that need it, or put a reason into the pull request",
    "docs.github.com, Secure use reference: self-hosted runners and what they hold belong behind a wall",
)
GATE_REMOVED = Rule(
    "gate-removed",
    Severity.DANGER,
    "A pool stays, and nothing proves its GPUs any more before it takes jobs.",
    "keep the check, or say in the pull request who finds a broken GPU instead",
    "docs/how-it-works/check.md",
)
BEYOND_QUOTA = Rule(
    "beyond-quota",
    Severity.DANGER,
    "The pools need more than gpu-ci:quotas of the stack file says the cloud has granted.",
    "ask for the quota first, or lower max",
    "gpu-ci quota, which compares the same",
)
BEYOND_BUDGET = Rule(
    "beyond-budget",
    Severity.DANGER,
    "The worst month of all pools costs more than the ceiling that was given.",
    "lower max, or raise the ceiling",
    "gpu-ci cost, which adds up the same",
)
GOES_BACK = Rule(
    "goes-back",
    Severity.WARNING,
    "A version that is pinned goes to an older one: a driver, a runner, a chart, an image, torch.",
    "say in the pull request why; GitHub gives an outdated runner no jobs, and an old driver has its old faults",
    "docs.github.com, Self-hosted runners reference: an update is installed within 30 days",
)
LOSES_DATA = Rule(
    "loses-data",
    Severity.DANGER,
    "What holds data (a disk, a bucket, a registry, a secret, a database) is deleted or replaced.",
    "copy what is needed first, or give the resource retain_on_delete; against the next time, protect",
    "www.pulumi.com/docs/iac/concepts/resources/options/retainondelete/",
)
REPLACE_UNKNOWN = Rule(
    "replace-unknown",
    Severity.WARNING,
    "It is told as an update, but no table of the sandbox knows which change of its type makes a new one.",
    "look the property up in the type's documentation, or see what a preview with credentials says",
    "docs/how-it-works/sandbox.md; of what holds data, `loses-data` says so instead",
)
PROTECTED = Rule(
    "protected",
    Severity.WARNING,
    "A resource that is protected would be deleted or replaced, or is protected or left in the cloud no longer.",
    "take protect off in a change of its own, once everybody agrees that the resource may go",
    "www.pulumi.com/docs/iac/concepts/resources/options/protect/",
)
IDENTITY = Rule(
    "identity",
    Severity.DANGER,
    "Somebody may do more than before: a grant is wider, or more workflows can take on a role or use the runners.",
    "grant what is used, to whom uses it, by name",
    "docs.github.com, OpenID Connect reference: a trust without a condition on sub trusts every repository",
)
KEEPS_JOBS = Rule(
    phrases.KEEPS_JOBS,
    Severity.NOTE,
    "A group of machines that run jobs gets another template, and those that are there keep the one they have.",
    "the others are there when these have ended their jobs",
    "docs.cloud.google.com/compute/docs/instance-groups/updating-migs: updatePolicy.type OPPORTUNISTIC",
)
RENAME = Rule(
    "like-a-rename",
    Severity.NOTE,
    "One resource goes, and one of the same type and the same parent comes, with much the same inputs.",
    "where it is the same one, an alias of the old name keeps it: ResourceOptions(aliases=[Alias(name=…)])",
    "www.pulumi.com/docs/iac/concepts/resources/options/aliases/",
)

RULES = (
    INTERRUPTS_JOBS,
    SECRET_EXPOSED,
    PUBLIC,
    GATE_REMOVED,
    BEYOND_QUOTA,
    BEYOND_BUDGET,
    LOSES_DATA,
    IDENTITY,
    PROTECTED,
    REPLACE_UNKNOWN,
    GOES_BACK,
    KEEPS_JOBS,
    RENAME,
)
"""In the order in which findings are told."""
