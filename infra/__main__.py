"""The entry point of the Pulumi program. It creates what Pulumi.<stack>.yaml describes (docs/reference/pools.md)."""

from __future__ import annotations

from gpu_ci.program.deploy import deploy

deploy()
