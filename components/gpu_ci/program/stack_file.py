"""The stack file of the program: its values from the engine, its problems, and the secrets that it names.

Only this module uses pulumi.Config.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import yaml
from pulumi.runtime import config as runtime_config

from gpu_ci.errors import ArgsError, Problem, provider_message, report
from gpu_ci.secret_manager import aws_secret
from gpu_ci.stack.lines import LineOf, lines_of, no_line
from gpu_ci.stack.parse import KEYS, Stack


class StackFileError(pulumi.RunError):
    """An error with every problem of a stack file. Pulumi shows a RunError without a traceback."""

    def __init__(self, stack: Stack) -> None:
        self.problems = tuple(stack.problems)
        count = f"{len(self.problems)} problem{'s' if len(self.problems) > 1 else ''} in {stack.name}"
        text = report(stack.name, self.problems, _lines(stack.values))
        super().__init__(f"{text}\n{count}; no pool was created or changed")


def load() -> Stack:
    """Read the stack file. Raise StackFileError with every problem of the file."""
    keys = sorted(runtime_config.CONFIG.get() or runtime_config.get_config_env())
    config = {key: pulumi.Config(key.partition(":")[0]).get(key.partition(":")[2]) for key in keys}
    secrets = [key for key in {*keys, *KEYS} if runtime_config.is_config_secret(key)]
    stack = Stack(stack_file(), pulumi.get_stack(), config, secrets)
    if stack.problems:
        raise StackFileError(stack)
    return stack


def stack_file() -> str:
    """Return the name of the stack file, for error messages."""
    return f"Pulumi.{pulumi.get_stack()}.yaml"


def _lines(values: Mapping[str, Any]) -> LineOf:
    """Return a function that finds the line of a path in the stack file.

    `values` are the values from the engine. If the values in the file differ, the engine has read another file
    (`--config-file`, or `stackConfigDir` of Pulumi.yaml). The function then finds no lines.
    """
    try:
        root = pulumi.runtime.get_root_directory()  # the program itself runs in the folder `main`
        text = Path(root, stack_file()).read_text(encoding="utf-8")
        config = yaml.safe_load(text)["config"]
        if all(config.get(key) == value for key, value in values.items()):
            return lines_of(text)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, yaml.YAMLError):
        pass
    return no_line


def values_of(references: Mapping[str, str]) -> dict[str, pulumi.Output[str]]:
    """Return the latest version of each secret, by its path in the stack file. The values are secret Outputs.

    All secrets are read before the first value is used, so that one report has the problems of all secrets.
    """
    answers = pulumi.Output.all(*(_answer(place, reference) for place, reference in references.items()))
    values = answers.apply(_values_or_error)
    return {place: pulumi.Output.secret(values[at]) for at, place in enumerate(references)}


def _answer(place: str, reference: str) -> pulumi.Output[Any]:
    """Return the value of the latest version of a secret, or a Problem if it cannot be read."""
    found: pulumi.Output[Any]
    if arn := aws_secret(reference):
        import pulumi_aws as aws  # only stacks with secrets there need it

        found = aws.secretsmanager.get_secret_version_output(secret_id=reference, region=arn["region"])
        store, field, right = "AWS Secrets Manager", "secret_string", "secretsmanager:GetSecretValue"
        show = f"aws secretsmanager get-resource-policy --secret-id {arn['name']} --region {arn['region']}"
    else:
        import pulumi_gcp as gcp

        _, project, _, secret = reference.split("/")
        found = gcp.secretmanager.get_secret_version_access_output(secret=reference)
        store, field, right = "Secret Manager", "secret_data", "roles/secretmanager.secretAccessor"
        show = f"gcloud secrets get-iam-policy {secret} --project={project}"

    def refused(error: Exception) -> Any:
        return Problem(
            place,
            f"cannot read {reference} from {store}",
            provider_message(error),
            f"a secret with a version that the deployer can read ({right})",
            f"check its name and its permissions: {show}",
            rule="secret-not-readable",
        )

    return found.recover(refused).apply(lambda read: read if isinstance(read, Problem) else getattr(read, field))


def _values_or_error(answers: list[Any]) -> list[Any]:
    if problems := [each for each in answers if isinstance(each, Problem)]:
        raise ArgsError(stack_file(), problems)
    return answers
