"""`gpu-ci schema`: prints the JSON Schema of stack files, for completion and checks in editors."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpu_ci.cli.output import InputError

if TYPE_CHECKING:
    from gpu_ci.args import Args


@click.command("schema")
@click.option("--site", metavar="MODULE:CLASS", help="The model of your program's own keys.")
@click.option("--json", "as_json", is_flag=True, help="Accepted as in every command; a schema is JSON anyway.")
def command(site: str | None, as_json: bool) -> None:  # noqa: ARG001 - as its help says
    """Print the JSON Schema (draft 2020-12) of Pulumi.<stack>.yaml: kinds, fields, machine types, zones, metrics.

    An editor with yaml-language-server completes and checks a stack file that begins with the line

    \b
      # yaml-language-server: $schema=docs/pulumi-stack.schema.json

    The schema has the kinds whose Pulumi packages are installed.

    --site names a subclass of gpu_ci.args.Args. Its KEYS map each field to a key of the stack file. With --site, the
    schema rejects any other key that begins with gpu-ci:.

    \b
    Examples:
      gpu-ci schema > pulumi-stack.schema.json
      gpu-ci schema --site gpu_ci.program.keys:Keys > docs/pulumi-stack.schema.json
    """
    from gpu_ci.stack.schema import as_json as written
    from gpu_ci.stack.schema import stack_schema

    model = load(site) if site else None
    keys: dict[str, str] = getattr(model, "KEYS", {})
    click.echo(written(stack_schema(model, keys)), nl=False)


def load(name: str) -> type[Args]:
    """Import a model by its name from the current folder."""
    from gpu_ci.args import Args

    module, _, attribute = name.partition(":")
    expected = "MODULE:CLASS, a subclass of gpu_ci.args.Args, such as gpu_ci.program.keys:Keys"
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"gpu-ci schema: --site: {name!r} cannot be imported", got=str(error), expected=expected
        ) from None
    finally:
        sys.path.remove(str(Path.cwd()))
    if not (isinstance(found, type) and issubclass(found, Args)):
        raise InputError(f"gpu-ci schema: --site: {name!r} is not a model", got=repr(found), expected=expected)
    return found
