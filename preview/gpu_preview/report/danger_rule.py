"""The table of danger rules. Each danger names one rule. docs/reference/preview-dangers.md is generated from it."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_common.secret_patterns import redact

from .. import phrases
from ..engine.states import Change
from ..model import Finding, Severity

# A finding is one or two sentences. A name from the program can be very long.
_READ, _LONGEST = 10_000, 600


@dataclass(frozen=True)
class Rule:
    """A rule that finds one kind of danger."""

    name: str
    severity: Severity
    description: str
    """A sentence on what the rule finds."""
    hint: str
    """The advice for the reviewer."""
    source: str
    """The source that explains the danger."""

    def found(self, change: Change, text: str, hint: str = "") -> Finding:
        """Return a finding about one resource, with text that looks like a secret redacted."""
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
    """Return a value as one line of limited length."""
    text = " ".join(str(value)[: 4 * longest].split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


INTERRUPTS_JOBS = Rule(
    "interrupts-jobs",
    Severity.DANGER,
    "A resource that runs jobs, or its machines, is deleted or replaced, while jobs may be running.",
    "merge when no job runs there, or create a second pool first and drain this one",
    "the cloud's documentation of the deletion, listed with each type below",
)
SECRET_EXPOSED = Rule(
    "secret-exposed",
    Severity.DANGER,
    "A secret value becomes plain text, or a resource is no longer encrypted or loses its own key.",
    "keep the value secret; rotate a secret that was in a state or a log in plain text",
    "www.pulumi.com/docs/iac/concepts/secrets/: a plain value is plain text in the state, in diffs and in outputs",
)
PUBLIC = Rule(
    "public",
    Severity.DANGER,
    "A resource becomes reachable or readable from the whole Internet.",
    "allow only the addresses, accounts or repositories that need it, or give a reason in the pull request",
    "docs.github.com, Secure use reference: isolate self-hosted runners from public access",
)
GATE_REMOVED = Rule(
    "gate-removed",
    Severity.DANGER,
    "A pool remains, but its GPUs are no longer checked before the pool takes jobs.",
    "keep the check, or explain in the pull request how a broken GPU is found instead",
    "docs/how-it-works/check.md",
)
REUSES_HOSTS = Rule(
    "reuses-hosts",
    Severity.DANGER,
    "A pool begins to run several jobs on one host.",
    "a job can leave something that no cleaning removes, for later jobs; use it only for repositories that you trust",
    "docs/guides/rented-hosts.md",
)
BEYOND_BUDGET = Rule(
    "beyond-budget",
    Severity.DANGER,
    "The worst month of all pools costs more than the limit (--max-usd-month).",
    "lower max, or raise the limit",
    "`gpu-ci cost`, which computes the same sum",
)
LOSES_DATA = Rule(
    "loses-data",
    Severity.DANGER,
    "A resource with data (a disk, a bucket, a registry, a secret, a database) is deleted or replaced.",
    "copy the data first, or set retain_on_delete; set protect to prevent a later deletion",
    "www.pulumi.com/docs/iac/concepts/resources/options/retainondelete/",
)
REPLACE_UNKNOWN = Rule(
    "replace-unknown",
    Severity.WARNING,
    "A change is listed as an update, but the sandbox does not know if it replaces a resource of this type.",
    "check the property in the documentation of the type, or run a preview with credentials",
    "docs/how-it-works/sandbox.md; for a resource with data, `loses-data` reports it instead",
)
PROTECTED = Rule(
    "protected",
    Severity.WARNING,
    "A protected resource is deleted or replaced, or a resource loses protect or retain_on_delete.",
    "remove protect in a separate change, after the owners agree to the deletion",
    "www.pulumi.com/docs/iac/concepts/resources/options/protect/",
)
IDENTITY = Rule(
    "identity",
    Severity.DANGER,
    "A grant becomes wider, or more workflows can assume a role or use the runners.",
    "grant only the permissions that are used, to named identities",
    "docs.github.com, OpenID Connect reference: a trust without a condition on sub trusts every repository",
)
KEEPS_JOBS = Rule(
    phrases.KEEPS_JOBS,
    Severity.NOTE,
    "A group of machines that run jobs gets another template, and existing machines keep theirs.",
    "nothing: after their jobs, new machines with the new template replace them",
    "docs.cloud.google.com/compute/docs/instance-groups/updating-migs: updatePolicy.type OPPORTUNISTIC",
)
RULES = (
    INTERRUPTS_JOBS,
    SECRET_EXPOSED,
    PUBLIC,
    GATE_REMOVED,
    BEYOND_BUDGET,
    LOSES_DATA,
    IDENTITY,
    REUSES_HOSTS,
    PROTECTED,
    REPLACE_UNKNOWN,
    KEEPS_JOBS,
)
"""All rules, in the order of their findings in a report."""
