"""A runner manager on Google Cloud, as another stack would make it."""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp
from gpu_ci.gcp.runner_manager import RunnerManager, RunnerManagerArgs
from gpu_ci.runner_manager import ManagerAlerts

PROJECT = "example-ci-staging"

machines = gcp.serviceaccount.Account("machines", account_id="machines", project=PROJECT)
manager = RunnerManager(
    "manager",
    RunnerManagerArgs(
        image=f"us-central1-docker.pkg.dev/{PROJECT}/builds/runner-manager@sha256:{'ab' * 32}",
        region="us-central1",
        project=PROJECT,
        labels={"team": "platform"},
        configuration=pulumi.Output.json_dumps({"name": "dev", "max": pulumi.Config().get_int("max") or 1}),
        app_key=f"projects/{PROJECT}/secrets/github-manager-app-key",
        standby_templates=["projects/example-ci-staging/regions/us-central1/instanceTemplates/l4-template-1"],
        machine_accounts={"l4": machines.email},
        alerts=ManagerAlerts(notification_channels=[f"projects/{PROJECT}/notificationChannels/1234567890"]),
        metrics=True,
    ),
)
for name, value in manager.state().items():
    pulumi.export(name, value)
