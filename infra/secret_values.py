"""The values of secrets that a stack file names: read from Secret Manager, and never told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_gcp as gcp
from gpu_ci.errors import ArgsError, Problem, provider_message

from infra.stack_file import stack_file


def values_of(references: Mapping[str, str]) -> dict[str, pulumi.Output[str]]:
    """The newest version of each secret, by the place that names it. Pulumi keeps them encrypted wherever they go.

    All are asked for before one is used, so that one report has every one that is refused.
    """
    answers = pulumi.Output.all(*(_answer(place, reference) for place, reference in references.items()))
    versions = answers.apply(_none_refused)
    return {place: pulumi.Output.secret(versions[at].secret_data) for at, place in enumerate(references)}


def _answer(place: str, reference: str) -> pulumi.Output[Any]:
    """The version, or the problem of not getting it."""

    def refused(error: Exception) -> Any:
        *_, project, _, secret = reference.split("/")
        return Problem(
            place,
            f"Secret Manager does not give out {reference}",
            provider_message(error),
            "a secret with a version, which whoever runs this may read (roles/secretmanager.secretAccessor)",
            f"check its name and who may read it: gcloud secrets get-iam-policy {secret} --project={project}",
        )

    found: pulumi.Output[Any] = gcp.secretmanager.get_secret_version_access_output(secret=reference)
    return found.recover(refused)


def _none_refused(answers: list[Any]) -> list[Any]:
    if problems := [each for each in answers if isinstance(each, Problem)]:
        raise ArgsError(stack_file(), problems)
    return answers
