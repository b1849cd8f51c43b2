"""The commands that give the workflows of the repository on GitHub the values of the outputs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi
from gpu_ci.github_trust import set_subject, variables

from bootstrap.settings import Settings


def at_github(settings: Settings, outputs: Mapping[str, Any]) -> pulumi.Output[str]:
    """Return the commands, one on each line.

    The variables are those of the workflow of `gpu-ci init`, whose environments have the names of stacks.
    """
    return pulumi.Output.all(**outputs).apply(lambda known: "\n".join(lines(settings, known)))


def lines(settings: Settings, outputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands for known outputs."""
    repository, aws = settings.github.repository, outputs.get("aws", {})
    for name, _, jobs in settings.github.identities():
        if jobs.environment is None:
            continue
        google = outputs.get(name, {})
        values = {
            "backend": outputs["backend"],
            "google-provider": google.get("workloadIdentityProvider"),
            "google-service-account": google.get("serviceAccount"),
            "aws-role": aws.get(name, {}).get("role"),
        }
        for each, variable in variables(jobs.environment).items():
            if values[each]:
                yield f"gh variable set {variable} --repo {repository} --body {shlex.quote(values[each])}"
    if settings.aws and settings.aws.subject_claim == "template":
        yield set_subject(repository)
