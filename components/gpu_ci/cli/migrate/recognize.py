"""Builds the draft of a stack file from a Terraform state: its pools, organization, project and runner group."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_ci import naming
from gpu_ci.cli.migrate import aws, google, nodes, scale_sets
from gpu_ci.cli.migrate.draft import GKE_NODES, NODES, Draft, RunnerGroup
from gpu_ci.cli.migrate.terraform import Resource, State

_GROUP = "github_actions_runner_group"
_LONGEST_NAME = 40  # naming.PATTERN


def draft_of(state: State, stack: str, organization: str = "", project: str = "") -> Draft:
    """Return the draft of a stack. A given organization or project replaces that of the state."""
    resources = state.resources
    draft = Draft(stack)
    sets = [found for each in resources if (found := scale_sets.of(each))]
    google.instance_groups(resources, draft)
    google.node_pools(resources, sets, draft)
    aws.scale_up_functions(resources, draft)
    aws.node_groups(resources, sets, draft)
    types = {each.type for each in resources}
    if not types & {google.NODE_POOL, aws.NODE_GROUP}:
        on_gke = google.CLUSTER in types
        unknown = ("clusterName", "machineType", "zones") if on_gke else ("clusterName", "instanceTypes")
        nodes.scale_sets_without_nodes(sets, GKE_NODES if on_gke else NODES, unknown, draft)
    _name(draft)
    draft.project = project or google.project_of(draft.pools, draft.subnetworks.values())
    owners = sorted({each.organization for each in sets if each.organization})
    draft.organization = organization or (owners[0] if owners else "") or _owner(resources)
    if len(owners) > 1 and not organization:
        draft.notes.append(f"The scale sets belong to {', '.join(owners)}. A stack has one organization.")
    draft.group = _group(resources, draft)
    return draft


def _name(draft: Draft) -> None:
    """Give each pool a name that a stack file accepts and that no other pool has."""
    taken: set[str] = set()
    for pool in draft.pools:
        name = naming.fit(pool.name.replace("_", "-"), _LONGEST_NAME)
        number = 2
        while name in taken:
            name, number = naming.fit(f"{pool.name}-{number}".replace("_", "-"), _LONGEST_NAME), number + 1
        taken.add(name)
        pool.name = name


def _owner(resources: Sequence[Resource]) -> str:
    """Return the owner of the repositories in the state, if it is one owner."""
    names = {each.text("full_name").partition("/")[0] for each in resources if each.type == "github_repository"}
    return names.pop() if len(names - {""}) == 1 and (names := names - {""}) else ""


def _group(resources: Sequence[Resource], draft: Draft) -> RunnerGroup | None:
    """Return the runner group to take over: the only one, or the only one that the pools name."""
    groups = [each for each in resources if each.type == _GROUP and each.mode == "managed"]
    named = {pool.runner_group for pool in draft.pools if pool.runner_group}
    chosen = groups if len(groups) == 1 else [each for each in groups if each.text("name") in named]
    if len(chosen) != 1:
        if groups:
            listed = ", ".join(sorted(each.text("name") for each in groups))
            draft.notes.append(f"The state has the runner groups {listed}. A stack has one: write which one.")
        return None
    group = chosen[0]
    names = {
        str(each.values.get("repo_id")): each.text("name") for each in resources if each.type == "github_repository"
    }
    ids = [str(each) for each in group.values.get("selected_repository_ids") or ()]
    known = sorted(names[each] for each in ids if each in names)
    found = RunnerGroup(group.text("id"), group.text("name"), known, address=group.address)
    if unknown := sorted(each for each in ids if each not in names):
        found.reason = f"also those with the ids {', '.join(unknown)}, whose names the state does not have"
    if group.text("visibility") != "selected":
        found.repositories = []
        found.reason = f"the old group is open to {group.text('visibility') or 'unknown'} repositories; name them"
    if group.values.get("allows_public_repositories") is True:
        found.notes.append("The old group allows public repositories. The stack's group does not allow them.")
    if group.values.get("restricted_to_workflows") is True:
        found.workflows = [str(each) for each in group.values.get("selected_workflows") or ()]
    return found
