"""What is said after Pulumi's own report of a check that failed: what became of what waits for it, and what to do."""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import monitor_supports_feature

_TOLD = (
    "{pool}: the check did not pass, so nothing behind it was made or changed: a scale set that was there keeps its "
    "image and settings, and a new one is not there. The nodes are changed already\n"
    "  hint: mend what the error names, or put back what was changed; the next pulumi up asks again"
)


def after_failure(owner: pulumi.Resource, hook: str, pool: str) -> dict[str, Any]:
    """Options of the Job that is the check; none under an engine that cannot tell of failures."""
    if not monitor_supports_feature(resource_pb2.RESOURCE_MONITOR_FEATURE_ERROR_HOOKS):
        return {}

    def tell(failed: pulumi.ErrorHookArgs) -> bool:
        if failed.failed_operation == "create":
            pulumi.log.warn(_TOLD.format(pool=pool), owner)
        return False  # not at once: a check that failed is asked again by the next `up`

    return {"hooks": pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(hook, tell)])}
