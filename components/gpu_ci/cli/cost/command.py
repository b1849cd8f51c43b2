"""The group `gpu-ci cost`. Without the name of a subcommand, it shows the prices of stack files."""

from __future__ import annotations

from pathlib import Path

import click
from gpu_catalog.errors import closest

from gpu_ci.cli.lazy import Lazy

_MODULES = {
    "plan": ("gpu_ci.cli.cost.plan", "Show what the pools of stack files cost, at rest and at most."),
    "report": ("gpu_ci.cli.cost.report_command", "Show what was paid for the jobs of each team or repository."),
    "query": ("gpu_ci.cli.cost.bill:query", "Print the query that reads a cloud's bill for the report."),
}


class _Cost(Lazy):
    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if not args or not self._is_subcommand(args[0], context):
            args = ["plan", *args]
        return super().parse_args(context, args)

    def _is_subcommand(self, word: str, context: click.Context) -> bool:
        """Return False for a file or an option of `plan`. A misspelt subcommand is not a file."""
        if word in context.help_option_names or word in self.modules:
            return True
        return bool(closest(word, self.modules)) and not Path(word).exists()


@click.group("cost", cls=_Cost, modules=_MODULES)
def command() -> None:
    """Show what pools would cost, and report what was paid.

    `gpu-ci cost [FILE...]` is short for `gpu-ci cost plan [FILE...]`. Every subcommand has --json.

    \b
    Examples:
      gpu-ci cost Pulumi.prod.yaml
      gpu-ci cost report records.jsonl --stack Pulumi.prod.yaml
      gpu-ci cost query google --table acme-billing.export.gcp_billing_export_resource_v1_01A2B3
    """
