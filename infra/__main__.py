"""GPU capacity for CI: reads the stack file, builds its pools and tells what came of them. A table of contents."""

from __future__ import annotations

from datetime import date

import pulumi

from infra import advice, pools, settings

# Everything the stack file says, checked as a whole: nothing is registered while one mistake is left in it.
chosen = settings.load()

# What is no mistake but should be known: prices and images that have grown old, quotas nobody gave.
for text in advice.warnings(chosen, date.today()):
    pulumi.log.warn(text)

# One component a pool, wired to what the site already has.
built = pools.build(chosen)

# What the pools' jobs need on GitHub. Its package is loaded where a stack asks for something there.
if chosen.github:
    from infra import github

    pulumi.export("github", github.build(chosen.github, chosen.site))

# What people and programs ask afterwards (`pulumi stack output pools`).
pulumi.export("pools", pools.facts(built))
pulumi.export("smokeTargets", pools.smoke_targets(built))
pulumi.export("cost", pools.stack_cost(built))
