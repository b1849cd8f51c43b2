"""Check the `fail` conditions of known charts that depend only on their values, with the charts' messages.

gha-runner-scale-set*: actions/actions-runner-controller@9bb16ae49d0ce585d8e682aa7e2668a6e832d5d8, charts/*/templates.
nvidia-device-plugin: NVIDIA/k8s-device-plugin@1b826acc6af3079d8923bac395c3124b8861a9a6,
deployments/helm/nvidia-device-plugin/templates/validation.yml.
kueue: kubernetes-sigs/kueue@8eab68778fc1b52affe165fdf5af29d1e9b4f3cb, charts/kueue/templates, pkg/config.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from pulumi_sandbox.providers.kubernetes.fields import has_unknown
from pulumi_sandbox.providers.kubernetes.helm.charts import CONTROLLER, KUEUE, PLUGIN, SCALE_SET
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown

# helm.sh/helm v3, pkg/chartutil/validate_name.go.
RELEASE_NAME_MOST = 53
NAME_MOST, NAMESPACE_MOST, LABEL_MOST = 45, 63, 256
MODES = ("dind", "kubernetes", "kubernetes-novolume")
RUNNER = "runner"
URL_REQUIRED = ".Values.githubConfigUrl is required"
SECRET_REQUIRED = "Values.githubConfigSecret is required for setting auth with GitHub server."  # noqa: S105
A_SECRET = "A valid .Values.githubConfigSecret is required for setting auth with GitHub server, provide "  # noqa: S105
DEFAULT_NAMESPACE = (
    "Running in the 'default' namespace is not recommended.\n"
    "Set 'allowDefaultNamespace=true' to bypass this error.\n"
    "Otherwise, use --namespace (with --create-namespace as necessary) to run in a specific namespace."
)

Values = Mapping[str, Any]
Rule = Callable[[Values, Values], Iterator[Problem]]


def check(chart: str, inputs: Values) -> Iterator[Problem]:
    name = inputs.get("name")
    if isinstance(name, str) and len(name) > RELEASE_NAME_MOST:
        yield Problem("name", f"invalid release name: the length must not be longer than {RELEASE_NAME_MOST}")
    values = inputs.get("values")
    if not isinstance(values, Unknown):
        yield from RULES[chart](inputs, values or {})


def missing_values(chart: str, inputs: Values) -> Iterator[str]:
    """Yield the errors for missing required values of a scale set, at creation instead of in Check.

    The real provider's Check does not render charts (pulumi-kubernetes at 94977969,
    provider/pkg/provider/helm_release.go). With --continue-on-error, the engine also calls Check for releases that
    depend on a failed resource. It leaves out unknown values and later skips these releases. An error in Check would
    end the whole program, with unrelated resources.
    """
    values = inputs.get("values") or {}
    if chart == SCALE_SET and values.get("githubConfigUrl") is None:
        yield URL_REQUIRED
    if chart == SCALE_SET and values.get("githubConfigSecret") is None:
        yield SECRET_REQUIRED


def scale_set_name(inputs: Values, values: Values) -> Any:
    """Return the `runs-on` name of a scale set: runnerScaleSetName, or the name of the release."""
    return values.get("runnerScaleSetName") or inputs.get("name")


def _scale_set(inputs: Values, values: Values) -> Iterator[Problem]:
    if values.get("githubConfigUrl") == "":
        yield Problem("values.githubConfigUrl", URL_REQUIRED)
    yield from _github_secret(values.get("githubConfigSecret"))
    name = scale_set_name(inputs, values)
    if isinstance(name, str) and len(name) > NAME_MOST:
        path = "values.runnerScaleSetName" if values.get("runnerScaleSetName") else "name"
        yield Problem(path, f"Name must have up to {NAME_MOST} characters")
    namespace = values.get("namespaceOverride") or inputs.get("namespace")
    if isinstance(namespace, str) and len(namespace) > NAMESPACE_MOST:
        yield Problem("namespace", f"Namespace must have up to {NAMESPACE_MOST} characters")
    yield from _scaling(values)
    for index, label in enumerate(values.get("scaleSetLabels") or ()):
        rule = "each label must be a non-empty string of less than 256 characters"
        if label == "":
            yield Problem(f"values.scaleSetLabels[{index}]", f"scaleSetLabels contains an empty string, {rule}")
        elif isinstance(label, str) and len(label) >= LABEL_MOST:
            yield Problem(
                f"values.scaleSetLabels[{index}]",
                f"scaleSetLabels contains a label that is 256 characters or more, {rule}",
            )
    yield from _pods(values)


def _github_secret(secret: Any) -> Iterator[Problem]:
    """Check that githubConfigSecret is a Secret's name, a token or a complete GitHub App.

    Source: templates/githubsecret.yaml.
    """
    path = "values.githubConfigSecret"
    if isinstance(secret, Unknown) or secret is None:
        return
    if not secret:
        yield Problem(path, SECRET_REQUIRED)
    elif isinstance(secret, Mapping):
        if not secret.get("github_token") and not secret.get("github_app_id"):
            yield Problem(
                path,
                f"{A_SECRET}.Values.githubConfigSecret.github_token or .Values.githubConfigSecret.github_app_id.",
            )
        app_fields = (secret.get("github_app_installation_id"), secret.get("github_app_private_key"))
        if secret.get("github_app_id") and not all(app_fields):
            yield Problem(
                path,
                f"{A_SECRET}.Values.githubConfigSecret.github_app_installation_id and "
                ".Values.githubConfigSecret.github_app_private_key.",
            )


def _scaling(values: Values) -> Iterator[Problem]:
    min_runners, max_runners = values.get("minRunners"), values.get("maxRunners")
    if isinstance(min_runners, int | float) and isinstance(max_runners, int | float) and min_runners > max_runners:
        yield Problem("values.maxRunners", "maxRunners has to be greater or equal to minRunners")
    for name, value in (("maxRunners", max_runners), ("minRunners", min_runners)):
        if isinstance(value, int | float) and value < 0:
            yield Problem(f"values.{name}", f"{name} has to be greater or equal to 0")


def _pods(values: Values) -> Iterator[Problem]:
    """Check values that the chart accepts although no runner can start with them."""
    mode = inner(values, "containerMode", "type")
    if isinstance(mode, str) and mode and mode not in MODES:
        yield Problem(
            "values.containerMode.type",
            f"unknown mode, which the chart ignores\n  got: {mode}\n  expected: {', '.join(MODES)}",
        )
    if mode == "kubernetes" and not inner(values, "containerMode", "kubernetesModeWorkVolumeClaim"):
        yield Problem(
            "values.containerMode.kubernetesModeWorkVolumeClaim",
            "required when containerMode.type is kubernetes: without it the runner's volume has no claim",
        )
    containers = inner(values, "template", "spec", "containers")
    if (
        containers is not None
        and not has_unknown(containers)
        and RUNNER not in [one.get("name") for _, one in items(containers)]
    ):
        yield Problem(
            "values.template.spec.containers",
            f"no container is named {RUNNER}; the controller runs and watches the container of this name",
        )


def _controller(_: Values, values: Values) -> Iterator[Problem]:
    """Check the service account of the controller (templates/_helpers.tpl, serviceAccountName)."""
    account = values.get("serviceAccount") or {}
    if inner(account, "name") == "default":
        yield Problem("values.serviceAccount.name", "serviceAccount.name cannot be set to 'default'")
    if inner(account, "create") is False and not inner(account, "name"):
        yield Problem("values.serviceAccount.name", "serviceAccount.name must be set if serviceAccount.create is false")


def _plugin(inputs: Values, values: Values) -> Iterator[Problem]:
    if inputs.get("namespace") == "default" and not values.get("allowDefaultNamespace"):
        yield Problem("namespace", DEFAULT_NAMESPACE)
    config = values.get("config") or {}
    config_name, config_map = inner(config, "name"), inner(config, "map")
    if config_name and config_map:
        yield Problem(
            "values.config", "Only one of 'config.name' or 'config.map' should ever be set for a given deployment."
        )
    if isinstance(config_map, Mapping) and config_map and not inner(config, "default"):
        fallbacks = inner(config, "fallbackStrategies") or ("named", "single")
        has_default = ("named" in fallbacks and "default" in config_map) or (
            "single" in fallbacks and len(config_map) == 1
        )
        if not has_default and "empty" not in fallbacks:
            yield Problem(
                "values.config.default",
                "A default config must be provided when more than one configuration is set in 'config.map'.",
            )


def _kueue(_: Values, values: Values) -> Iterator[Problem]:
    """Check Kueue's configuration, which replaces the default of the chart.

    Kueue decodes it strictly, and exits if it cannot (pkg/config/config.go, Load). The chart accepts any text.
    """
    path, text = (
        "values.managerConfig.controllerManagerConfigYaml",
        inner(values, "managerConfig", "controllerManagerConfigYaml"),
    )
    if not isinstance(text, str):
        return
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError:
        given = None
    if not isinstance(given, Mapping):
        yield Problem(path, "not a map in YAML, so Kueue would exit again and again")
        return
    kind = (given.get("apiVersion"), given.get("kind"))
    if kind[0] not in KUEUE_CONFIGURATIONS or kind[1] != "Configuration":
        yield Problem(path, f"no kind {kind[1]!r} is registered for version {kind[0]!r}, so Kueue would exit")
    for name in given:
        if name not in KUEUE_FIELDS:
            yield Problem(path, f'unknown field "{name}", so Kueue would exit again and again')


# apis/config/v1beta2/configuration_types.go, Configuration and ControllerManager.
KUEUE_CONFIGURATIONS = ("config.kueue.x-k8s.io/v1beta1", "config.kueue.x-k8s.io/v1beta2")
KUEUE_FIELDS = (
    "apiVersion", "kind", "namespace", "manageJobsWithoutQueueName", "managedJobsNamespaceSelector",
    "internalCertManagement", "waitForPodsReady", "clientConnection", "integrations", "multiKueue", "fairSharing",
    "admissionFairSharing", "resources", "featureGates", "objectRetentionPolicies", "tls", "webhook",
    "leaderElection", "metrics", "health", "controller", "pprofBindAddress", "visibilityServer",
)  # fmt: skip

RULES: dict[str, Rule] = {CONTROLLER: _controller, SCALE_SET: _scale_set, PLUGIN: _plugin, KUEUE: _kueue}
