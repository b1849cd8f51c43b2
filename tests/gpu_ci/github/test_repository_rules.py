"""The resources of repository rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_ci.github.repository_rules import RepositoryRules, RepositoryRulesArgs

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import CALLS, COMPUTED


def run(program: Callable[[], Any], **options: Any) -> Deployment:
    return deploy(program, computed=COMPUTED, calls=CALLS, **options)


def rules(**changes: Any) -> Deployment:
    return run(lambda: RepositoryRules("main", RepositoryRulesArgs(**{"repository": "web", **changes})))
