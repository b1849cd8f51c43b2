"""GPU capacity for CI: reads the stack file, builds its pools and tells what came of them. A table of contents."""

from __future__ import annotations

import signal
from datetime import date

import pulumi

from infra import manager, networks, pools, registration, settings, stack_warnings

# Pulumi's Python language host ends a program with SIGINT once a resource has failed; Python would print a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

# Everything the stack file says, checked as a whole: nothing is registered while one mistake is left in it.
stack_settings = settings.load_or_exit()

# A network for each region that asks for one.
made_networks = networks.build(stack_settings)
if made_networks:
    pulumi.export("networks", networks.facts(made_networks))

# What the pools' jobs need on GitHub. Its package is loaded where a stack asks for something there.
group = None
if stack_settings.github:
    from infra import github

    github_facts = github.build(stack_settings.github, stack_settings.site)
    group = github_facts.get("runnerGroup")
    pulumi.export("github", github_facts)

# What the pools of a cluster share; AWS's and Kubernetes' packages, where a stack describes one.
clustered = list(stack_settings.pools)
if stack_settings.clusters:
    from infra import clusters

    shared = clusters.build(stack_settings)
    clustered = [clusters.with_cluster(pool, shared) for pool in clustered]

# One component a pool, wired to these and to what the site has.
built = pools.build(
    registration.with_runner_group(networks.with_subnetwork(pool, made_networks), group) for pool in clustered
)

# What people and programs ask afterwards (`pulumi stack output pools`).
pulumi.export("pools", pools.facts(built))
pulumi.export("smokeTargets", pools.smoke_targets(built))
pulumi.export("cost", pools.stack_cost(built))
if managed := manager.facts(built, stack_settings.site.github, stack_settings.manager):
    pulumi.export("manager", managed)
    if deployed := manager.build(stack_settings, built, managed):
        pulumi.export("runnerManager", deployed)

# What is no mistake but should be known: prices and images that have grown old, a choice with a price. An update tells
# it too: where it skips its preview, nothing else would.
for text in stack_warnings.warnings(stack_settings, date.today()):
    pulumi.log.warn(text)
# What no preview can see in the project; an update finds it out.
for text in stack_warnings.prerequisites_of_builds(stack_settings) if pulumi.runtime.is_dry_run() else ():
    pulumi.log.info(text)
