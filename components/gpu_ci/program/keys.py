"""The keys of a stack file that the program reads, except clusters, pools, image pipelines and quotas.

The schema for editors uses them.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from gpu_ci.stack.github import Github
from gpu_ci.stack.manager import ManagerSettings
from gpu_ci.stack.notebooks import NotebookEntry
from gpu_ci.stack.parse import NOTEBOOKS, PROJECT
from gpu_ci.stack.site import GITHUB, MANAGER, SITE, Provider, Site
from gpu_ci.stack.teams import TEAMS, Teams


class Keys(Provider):
    """The settings of a stack file, except clusters, pools, image pipelines and quotas."""

    KEYS: ClassVar[dict[str, str]] = {
        "project": PROJECT,
        "site": SITE,
        "github": GITHUB,
        "manager": MANAGER,
        "teams": TEAMS,
        "notebooks": NOTEBOOKS,
    }
    """The key of each field in a stack file."""

    site: Site = Field(
        default=Site(), description="existing subnetworks, networks to create, labels, and the GitHub organization"
    )
    github: Github | None = Field(
        default=None, description="settings on GitHub: a runner group, secrets, variables and repository rules"
    )
    manager: ManagerSettings | None = Field(
        default=None, description="the runner manager on Cloud Run or Amazon ECS; by default the stack creates none"
    )
    teams: Teams = Field(
        default={}, description="teams by name: their repositories, for `gpu-ci cost report`, and what they may spend"
    )
    notebooks: dict[str, NotebookEntry] = Field(
        default={}, description="notebook pipelines by name, which run the notebooks of a push on GPU nodes of a pool"
    )
