"""A warning after Pulumi's own report of a resource that failed: what it means, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import monitor_supports_feature


def after_failure(
    owner: pulumi.Resource, hook: str, text: Callable[[pulumi.ErrorHookArgs], str], operations: tuple[str, ...]
) -> dict[str, Any]:
    """Options of a resource that make `owner` warn when one of these operations fails.

    None under an engine without error hooks, and none in a preview, where nothing is made: the first hook starts a
    server of callbacks in the program, and a program that fails meanwhile crashes in grpc (seen with grpcio on 3.11).
    """
    if pulumi.runtime.is_dry_run() or not monitor_supports_feature(resource_pb2.RESOURCE_MONITOR_FEATURE_ERROR_HOOKS):
        return {}

    def warn(failed: pulumi.ErrorHookArgs) -> bool:
        if failed.failed_operation in operations:
            pulumi.log.warn(text(failed), owner)
        return False  # no retry at once: the next `up` tries again

    return {"hooks": pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(hook, warn)])}
