"""Reads the secrets that a stack file names from Secret Manager. Their values are never printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from gpu_ci.errors import ArgsError, Problem, provider_message

from .stack_file import stack_file


def values_of(references: Mapping[str, str]) -> dict[str, pulumi.Output[str]]:
    """Return the latest version of each secret, by its path in the stack file. The values are secret Outputs.

    All secrets are read before the first value is used, so that one report has the problems of all secrets.
    """
    answers = pulumi.Output.all(*(_answer(place, reference) for place, reference in references.items()))
    versions = answers.apply(_versions_or_error)
    return {place: pulumi.Output.secret(versions[at].secret_data) for at, place in enumerate(references)}


def _answer(place: str, reference: str) -> pulumi.Output[Any]:
    """Return the latest version of a secret, or a Problem if it cannot be read."""

    def refused(error: Exception) -> Any:
        *_, project, _, secret = reference.split("/")
        return Problem(
            place,
            f"cannot read {reference} from Secret Manager",
            provider_message(error),
            "a secret with a version that the deployer can read (roles/secretmanager.secretAccessor)",
            f"check its name and its permissions: gcloud secrets get-iam-policy {secret} --project={project}",
            rule="secret-not-readable",
        )

    import pulumi_gcp as gcp  # only stacks that refer to secrets need it

    found: pulumi.Output[Any] = gcp.secretmanager.get_secret_version_access_output(secret=reference)
    return found.recover(refused)


def _versions_or_error(answers: list[Any]) -> list[Any]:
    if problems := [each for each in answers if isinstance(each, Problem)]:
        raise ArgsError(stack_file(), problems)
    return answers
