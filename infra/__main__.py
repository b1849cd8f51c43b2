"""GPU capacity for CI: reads the stack file, builds its pools and tells what came of it. A table of contents."""

from __future__ import annotations

import pulumi

from infra import pools, settings

# Everything the stack file says, checked as a whole: nothing is registered while one mistake is left in it.
chosen = settings.load()

# One component a pool, wired to what the site already has.
built = pools.build(chosen)

# What people and programs ask afterwards (`pulumi stack output pools`).
pulumi.export("pools", pools.facts(built))
pulumi.export("smokeTargets", pools.smoke_targets(built))
