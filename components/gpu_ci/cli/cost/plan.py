"""`gpu-ci cost plan`: prints the cost of the pools of stack files, at rest, at maximum size and in the worst month."""

from __future__ import annotations

from typing import Any

import click
from gpu_catalog import cost, staleness
from gpu_catalog.cost import Metered, PoolCost, StackCost, Total

from gpu_ci.cli import clock, options
from gpu_ci.cli.output import print_table, print_text
from gpu_ci.cli.stack_files import StackFile, for_each_file
from gpu_ci.stack import quotas

_HEADINGS = ["pool", "machine", "market", "region", "max", "USD/h each", "at rest", "at max", "worst month", "price of"]


@click.command("plan")
@click.argument("files", metavar="[FILE...]", nargs=-1, type=click.Path())
@options.as_json
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Show the cost of each pool and market: USD per hour at rest and at maximum size, and USD for a month at maximum.

    `gpu-ci cost` without the word plan does the same.

    Without an argument, the command reads every Pulumi.<stack>.yaml in this folder. A price that is not published is
    unknown. A total leaves out unknown prices and is then marked as a minimum (>=). Boot disks and network traffic are
    not included.

    \b
    Examples:
      gpu-ci cost plan
      gpu-ci cost plan Pulumi.prod.yaml --json
    """
    for_each_file(files, lambda file: (file, of(file)), show, document, as_json)


def of(file: StackFile) -> StackCost:
    file.refuse_mistakes()
    return quotas.cost_of(file.pools)


def old(stack_cost: StackCost) -> list[str]:
    """Return a note about old and undated prices."""
    note = staleness.prices({pool.demand.pool: pool.price for pool in stack_cost.pools}, clock.today())
    return [note] if note else []


def show(file: StackFile, stack_cost: StackCost) -> None:
    rows = [pool_row(pool) for pool in stack_cost.pools] + [metered_row(pool) for pool in stack_cost.metered]
    if len(stack_cost.by_market) > 1:
        rows += [total_row(f"all {market}", total) for market, total in stack_cost.by_market.items()]
    rows.append(total_row("all", stack_cost.total))
    click.echo(f"{file.name}\n")
    print_table(_HEADINGS, rows, right="max|USD/h each|at rest|at max|worst month")
    click.echo("")
    if any(map(sources, stack_cost.pools)):
        print_text("in parentheses: the sources of a price, which `gpu-ci catalog show MACHINE` explains")
    print_text(stack_cost.summary)
    for text in old(stack_cost):
        print_text(f"note: {text}", 2)


def pool_row(pool: PoolCost) -> tuple[str, ...]:
    demand = pool.demand
    each = cost.UNKNOWN if pool.price is None else f"{'~' if pool.estimated else ''}{pool.price.usd_per_hour:.4f}"
    machine = demand.machine.key
    if pool.by_type:
        _, lowest = pool.by_type[0]
        machine = f"{demand.machine.cloud}/{pool.most_expensive_type} (most expensive of {len(pool.by_type)})"
        each = f"{lowest.usd_per_hour:.4f} to {each}" if lowest and pool.price else each
    return (
        demand.pool, machine, demand.market, demand.region, str(demand.max_machines), each,
        usd(pool.usd_per_hour_at_rest), usd(pool.usd_per_hour_at_max), usd(pool.usd_worst_month, 0), read_in(pool),
    )  # fmt: skip


def sources(pool: PoolCost) -> list[str]:
    """Return the sources of the price; `gpu-ci catalog show` describes each."""
    return [] if pool.price is None else list(dict.fromkeys(pool.price.sources))


def read_in(pool: PoolCost) -> str:
    """Return the date of the price and its sources."""
    return f"{pool.price_date} ({', '.join(sources(pool))})" if pool.price else pool.price_date


def metered_row(pool: Metered) -> tuple[str, ...]:
    """Return the row of a pool that is billed by use. The cost is 0 USD at rest. With jobs, it is unknown."""
    at_max = (usd(0.0), cost.UNKNOWN, cost.UNKNOWN, cost.UNKNOWN)
    return (pool.pool, pool.machine_type, "", pool.region, "", cost.UNKNOWN, *at_max)


def total_row(name: str, total: Total) -> tuple[str, ...]:
    mark = ">= " if total.at_least else "~" if total.estimated else ""
    at_most = (usd(total.usd_per_hour_at_max), usd(total.usd_worst_month, 0))
    marked = (each if each == cost.UNKNOWN else f"{mark}{each}" for each in at_most)
    return (name, "", "", "", "", "", usd(total.usd_per_hour_at_rest), *marked, "")


def usd(amount: float | None, digits: int = 2) -> str:
    return cost.UNKNOWN if amount is None else f"{amount:,.{digits}f}"


def document(file: StackFile, stack_cost: StackCost) -> dict[str, Any]:
    pools = {
        each.demand.pool: {"machine": each.demand.machine.key, **each.to_json(), "priceSources": sources(each)}
        for each in stack_cost.pools
    }
    pools |= {each.pool: {"machine": each.machine_type, **each.to_json()} for each in stack_cost.metered}
    return {"file": file.name, "pools": pools, **stack_cost.to_json(), "notes": old(stack_cost)}
