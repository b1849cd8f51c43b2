"""`gpu-ci catalog refresh`: compare the catalog with its sources, and with --write update it."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from gpu_catalog import data_files
from gpu_catalog.refresh import RefreshError
from gpu_catalog.upstream import UpstreamError

from gpu_ci.cli import clock, options
from gpu_ci.cli.output import InputError, print_json

if TYPE_CHECKING:
    from gpu_catalog.upstream.plans import Plan


@click.command("refresh")
@click.option("--aws/--no-aws", default=True, help="Read the installed botocore, moto and cfn-lint. On by default.")
@click.option("--google", "project", metavar="PROJECT", help="Read Compute Engine, with this project.")
@click.option("--google-prices", is_flag=True, help="Read the Cloud Billing catalog.")
@click.option("--write", is_flag=True, help="Write the differences to the data files.")
@options.as_json
def command(aws: bool, project: str | None, google_prices: bool, write: bool, as_json: bool) -> None:
    """Show each field of the catalog that differs from its source. With --write, update the catalog.

    A machine that a source no longer names stays in the catalog, with the date when it was first missing. The exit code
    is 1 if there are differences that were not written.

    --aws reads packages of the test environment (make dev), and needs no network access. --google and --google-prices
    need application default credentials (gcloud auth application-default login). These two options were tested with
    recorded answers only.

    \b
    Examples:
      gpu-ci catalog refresh
      gpu-ci catalog refresh --write
      gpu-ci catalog refresh --no-aws --google my-project --google-prices
    """
    plans_found = [plan_of(create_plan) for create_plan in _chosen_sources(aws, project, google_prices)]
    if not plans_found:
        raise InputError(
            "gpu-ci catalog refresh: no source", hint="add --google PROJECT or --google-prices, or leave --no-aws out"
        )
    differ = any(not plan.diff.empty for plan in plans_found)
    if not as_json:
        for plan in plans_found:
            show(plan)
    files = _saved(plans_found) if write and differ else []
    if as_json:
        print_json({"sources": [document(plan) for plan in plans_found], "written": files})
    elif write:
        click.echo(f"wrote {', '.join(files)}; read the diff before you commit it" if files else "nothing to write")
    elif differ:
        click.echo("nothing was written: add --write")
    if differ and not write:
        click.get_current_context().exit(1)


def _chosen_sources(aws: bool, project: str | None, google_prices: bool) -> list[Callable[[], Plan]]:
    """Return for each chosen source a function that compares it with the catalog."""
    from gpu_catalog.upstream import plans

    today = clock.today()
    return [
        *([lambda: plans.aws(today)] if aws else []),
        *([lambda: plans.google(today, project)] if project else []),
        *([lambda: plans.google_prices(today)] if google_prices else []),
    ]


def plan_of(create_plan: Callable[[], Plan]) -> Plan:
    """Return the plan of one source. Raise InputError if the source cannot be read."""
    import google.auth.exceptions
    import googleapiclient.errors

    try:
        return create_plan()
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(f"{error.name}: not installed", expected="the test environment", hint="make dev") from None
    except (UpstreamError, RefreshError) as error:
        raise InputError(str(error)) from None
    except google.auth.exceptions.GoogleAuthError as error:
        hint = "gcloud auth application-default login"
        raise InputError("Google: no working credentials", got=str(error).splitlines()[0], hint=hint) from None
    except googleapiclient.errors.HttpError as error:
        raise InputError(f"Google: refused with {error.status_code}", got=str(error.reason)) from None
    except (OSError, json.JSONDecodeError) as error:
        raise InputError("Google: no answer", got=str(error)) from None


def show(plan: Plan) -> None:
    for line in plan.diff.lines():
        click.echo(line)
    for line in plan.by_hand:
        click.echo(f"! by hand: {line}")


def document(plan: Plan) -> dict[str, Any]:
    diff = plan.diff
    return {
        "source": diff.source,
        "added": list(diff.added),
        "changed": [
            {"machine": each.machine, "field": each.field, "current": each.current, "upstream": each.upstream}
            for each in diff.changed
        ],
        "gone": list(diff.gone),
        "back": list(diff.back),
        "same": diff.same,
        "by_hand": list(plan.by_hand),
    }


def _saved(plans_found: list[Plan]) -> list[str]:
    from gpu_catalog.upstream import plans

    try:
        return sorted(path.name for path in plans.save(plans_found))
    except OSError as error:
        hint = "run --write in a checkout of the project"
        raise InputError(f"{data_files.DATA}: cannot be written", got=error.strerror or str(error), hint=hint) from None
