"""`gpu-ci catalog`: list machine types, and show one."""

from __future__ import annotations

import click

from gpu_ci.cli.lazy import Lazy

MODULES = {
    "list": ("gpu_ci.cli.catalog.listing", "List the machines that match all options (the default)."),
    "show": ("gpu_ci.cli.catalog.show", "Show one machine: every fact, its source and its date."),
}


class Catalog(Lazy):
    """A group whose default command is `list`, so that `gpu-ci catalog --gpu l4` works."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["list", *args]
        return super().parse_args(context, args)

    def suggestion(self, word: str, context: click.Context) -> str:
        import gpu_catalog

        try:
            return f"gpu-ci catalog show {gpu_catalog.machine(word).key.partition('/')[2]}"
        except LookupError:
            return super().suggestion(word, context)


@click.group("catalog", cls=Catalog, modules=MODULES)
def command() -> None:
    """Machines with GPUs on Google Cloud and AWS, as facts with sources and dates.

    \b
    Examples:
      gpu-ci catalog                                     every machine type with a GPU
      gpu-ci catalog --gpu l4 --region us-central1       with prices there
      gpu-ci catalog --sort price --min-memory-gib 24 --market spot
      gpu-ci catalog show g2-standard-8
    """
