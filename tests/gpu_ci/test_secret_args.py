"""Fields that take secret Outputs only, and fields that take none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pulumi
import pytest
from gpu_ci.args import Args, PlainInput, SecretInput
from gpu_ci.errors import ArgsError, Problem
from pydantic import Field

from tests.gpu_ci.support import run


class Vault(Args):
    """Return the redacted and the shown values."""

    hidden: dict[str, SecretInput[Annotated[str, Field(max_length=5)]]] = Field(default={}, description="secrets")
    shown: PlainInput[str] = Field(default="", description="no secret")


NOT_SECRET = "must be a secret Output, so that neither state nor logs have it in plain text"


@pytest.mark.parametrize(
    ("values", "path", "text"),
    [
        (lambda: {"hidden": {"a": "hush!"}}, "hidden.a", NOT_SECRET),
        (lambda: {"hidden": {"a": pulumi.Output.from_input("hush!")}}, "hidden.a", NOT_SECRET),
        (lambda: {"hidden": {"a": 5}}, "hidden.a", NOT_SECRET),
        (lambda: {"hidden": "hush!"}, "hidden", "must be a map"),
        (lambda: {"hidden": {"a": pulumi.Output.secret("hush!!")}}, "hidden.a", "must have at most 5 characters"),
        (
            lambda: {"shown": pulumi.Output.secret("hush!")},
            "shown",
            "is a secret, but this field is stored in plain text",
        ),
    ],
)
def test_wrong_secrecy_is_refused_and_the_value_not_shown(
    values: Callable[[], dict[str, Any]], path: str, text: str
) -> None:
    async def settled() -> tuple[Problem, ...]:
        try:
            await Vault(**values()).settle()
        except ArgsError as error:
            return error.problems
        return ()

    [found] = run(settled())
    assert (found.path, found.text, found.got) == (path, text, "a value that is not shown, because it may be a secret")
    assert "hush" not in found.render("Vault")


def test_a_secret_and_a_plain_value_pass_where_they_belong() -> None:
    async def kept() -> Any:
        vault = Vault(hidden={"a": pulumi.Output.secret("hush!")}, shown=pulumi.Output.from_input("x"))
        await vault.settle()
        hidden = pulumi.Output.from_input(vault.hidden["a"])
        return await hidden.future(), await hidden.is_secret(), await pulumi.Output.from_input(vault.shown).future()

    assert run(kept()) == ("hush!", True, "x")
