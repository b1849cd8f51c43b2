"""Warnings of a stack that do not prevent a deployment, such as outdated images and unknown quota limits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import date

from gpu_catalog import staleness

from gpu_ci.github import plans
from gpu_ci.pool_args import PoolArgs
from gpu_ci.stack.parse import Stack
from gpu_ci.stack.pools import images
from gpu_ci.stack.provider_secrets import keys_gates_ignore
from gpu_ci.stack.warnings import other_projects, stack_warnings


def warnings(stack: Stack, today: date) -> list[str]:
    """Return the warnings of the stack. A warning that applies to several pools appears once."""
    return [
        *(str(each) for image in images(stack.pools) for each in staleness.image(image, today)),
        *_old_runners(stack.pools, today),
        *(keys_gates_ignore(stack.config, os.environ) if any(args.HAS_GATE for _, args in stack.pools) else []),
        *stack.quotas.warnings,
        *other_projects(stack.pools, stack.project),
        *stack_warnings(stack),
        *plans.notes(stack.values[plans.KEY], stack.at(plans.PLAN)),
    ]


def prerequisites_of_builds(stack: Stack) -> list[str]:
    """Return the prerequisites in the project that a preview cannot check."""
    return [text for each in (*stack.specs, *stack.pipelines) for text in each.args.prerequisites(each.path)]


def _old_runners(pools: Iterable[tuple[str, PoolArgs]], today: date) -> list[str]:
    """Return a warning for each outdated version of the GitHub runner. GitHub stops sending jobs to old versions."""
    registered = (version for _, args in pools if (version := args.registered_runner))
    return [str(each) for version in dict.fromkeys(registered) for each in staleness.runner(version, today)]
