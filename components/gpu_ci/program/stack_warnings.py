"""Warnings of a stack that do not prevent a deployment, such as outdated images and unknown quota limits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import date

from gpu_catalog import staleness

from gpu_ci.github import plans
from gpu_ci.pool_args import PoolArgs
from gpu_ci.stack.images import IMAGES
from gpu_ci.stack.pools import POOLS, images
from gpu_ci.stack.provider_secrets import keys_gates_ignore
from gpu_ci.stack.warnings import GROUP, MANAGER_APP, RUNNER_APP, other_projects, stack_warnings
from gpu_ci.validation_errors import join

from .settings import Settings


def warnings(settings: Settings, today: date) -> list[str]:
    """Return the warnings of the stack. A warning that applies to several pools appears once."""
    pools = [(pool.name, pool.args) for pool in settings.pools]
    return [
        *(str(each) for image in images(pools) for each in staleness.image(image, today)),
        *_old_runners(pools, today),
        *(keys_gates_ignore(settings.keys, os.environ) if any(pool.args.HAS_GATE for pool in settings.pools) else []),
        *settings.quotas.warnings,
        *other_projects(pools, settings.project),
        *stack_warnings(
            pools,
            settings.clusters,
            [each.cluster for each in (*settings.pools, *settings.pipelines)],
            _registration_keys(settings),
        ),
        *_plans(settings),
    ]


def prerequisites_of_builds(settings: Settings) -> list[str]:
    """Return the prerequisites in the project that a preview cannot check."""
    pools = [text for each in settings.pools for text in each.args.prerequisites(join(POOLS, each.name))]
    return pools + [text for each in settings.pipelines for text in each.args.prerequisites(join(IMAGES, each.name))]


def _registration_keys(settings: Settings) -> list[str]:
    """Return those of the keys MANAGER_APP, RUNNER_APP and GROUP that the stack file has."""
    owner, github = settings.site.github, settings.github
    values = {
        MANAGER_APP: owner and owner.manager_app,
        RUNNER_APP: owner and owner.runner_app,
        GROUP: github and github.runner_group,
    }
    return [key for key, value in values.items() if value is not None]


def _plans(settings: Settings) -> list[str]:
    """Return a note about the GitHub plans that the stack needs."""
    owner, github = settings.site.github, settings.github
    if owner is None or github is None:
        return []
    return plans.notes(github.model_dump(mode="json", by_alias=True), owner.plan)


def _old_runners(pools: Iterable[tuple[str, PoolArgs]], today: date) -> list[str]:
    """Return a warning for each outdated version of the GitHub runner. GitHub stops sending jobs to old versions."""
    registered = (version for _, args in pools if (version := args.registered_runner))
    return [str(each) for version in dict.fromkeys(registered) for each in staleness.runner(version, today)]
