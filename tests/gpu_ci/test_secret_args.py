"""Fields that take secret Outputs only, and fields that take none."""

from __future__ import annotations

from typing import Annotated, Any

import pulumi
from gpu_ci.args import Args, PlainInput, SecretInput
from pydantic import Field

from tests.gpu_ci.support import run


class Vault(Args):
    """Return the redacted and the shown values."""

    hidden: dict[str, SecretInput[Annotated[str, Field(max_length=5)]]] = Field(default={}, description="secrets")
    shown: PlainInput[str] = Field(default="", description="no secret")


NOT_SECRET = "must be a secret Output, so that neither state nor logs have it in plain text"


def test_a_secret_and_a_plain_value_pass_where_they_belong() -> None:
    async def kept() -> Any:
        vault = Vault(hidden={"a": pulumi.Output.secret("hush!")}, shown=pulumi.Output.from_input("x"))
        await vault.settle()
        hidden = pulumi.Output.from_input(vault.hidden["a"])
        return await hidden.future(), await hidden.is_secret(), await pulumi.Output.from_input(vault.shown).future()

    assert run(kept()) == ("hush!", True, "x")
