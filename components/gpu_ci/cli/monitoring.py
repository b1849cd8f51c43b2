"""`gpu-ci monitoring`: prints the rule file of Prometheus, and dashboards of Grafana and Google Cloud."""

from __future__ import annotations

import click

from gpu_ci.cli.lazy import Lazy
from gpu_ci.cli.output import InputError, print_json

MODULES = {
    "rules": ("gpu_ci.cli.monitoring:rules", "Print the alerts as a rule file of Prometheus."),
    "dashboard": ("gpu_ci.cli.monitoring:dashboard", "Print the dashboard for Grafana or Google Cloud."),
}


@click.group("monitoring", cls=Lazy, modules=MODULES)
def command() -> None:
    """Alerts and dashboards over the measurements of the runner manager.

    \b
    Examples:
      gpu-ci monitoring rules > gpu-ci.rules.yml
      gpu-ci monitoring dashboard > gpu-ci.json
    """


@click.command("rules")
@click.option("--wait-sec", type=int, default=480, show_default=True, metavar="SECONDS",
              help="A job should start within this time, 5 to 7200: a bound of the histogram of waits.")  # fmt: skip
@click.option("--wait-ratio", type=float, default=0.95, show_default=True, metavar="RATIO",
              help="The share of the jobs that should start within this time, 0.94 to 0.999.")  # fmt: skip
@click.option("--failure-ratio", type=float, default=0.05, show_default=True, metavar="RATIO",
              help="The share of the machines that may fail, above 0 and below 1.")  # fmt: skip
@click.option("--docs-url", default="", metavar="URL",
              help="The address of this project's docs, for runbook_url. By default: the path docs/.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the rules as JSON, which Prometheus also reads.")
def rules(wait_sec: int, wait_ratio: float, failure_ratio: float, docs_url: str, as_json: bool) -> None:
    """Print the alerts and their recording rules as a rule file of Prometheus.

    Each alert has a severity, critical or warning, and a runbook_url: the page that says what to do.

    \b
    Examples:
      gpu-ci monitoring rules > gpu-ci.rules.yml
      gpu-ci monitoring rules --wait-sec 900 --wait-ratio 0.99
      gpu-ci monitoring rules --docs-url https://github.com/OWNER/gpu-ci/blob/COMMIT/docs
    """
    import yaml

    from gpu_ci.monitoring.alerts import LEAST_WAIT_RATIO, WAIT_BOUNDS_SEC, Objectives, rule_file

    problems = []
    if wait_sec not in WAIT_BOUNDS_SEC:
        near = min(WAIT_BOUNDS_SEC, key=lambda bound: abs(bound - wait_sec))
        problems.append(
            f"--wait-sec: got {wait_sec}, expected one of {', '.join(map(str, WAIT_BOUNDS_SEC))}, the bounds of the "
            f"histogram gpu_ci_job_wait_seconds\n  hint: --wait-sec {near}"
        )
    if not LEAST_WAIT_RATIO <= wait_ratio <= 0.999:
        problems.append(
            f"--wait-ratio: got {wait_ratio}, expected {LEAST_WAIT_RATIO} to 0.999; below, the fast alert could never "
            "fire\n  hint: for a weaker objective, raise --wait-sec"
        )
    if not 0 < failure_ratio < 1:
        problems.append(f"--failure-ratio: got {failure_ratio}, expected a number above 0 and below 1, such as 0.05")
    if docs_url and not docs_url.startswith(("https://", "http://")):
        problems.append(
            f"--docs-url: got {docs_url!r}, expected an address\n"
            "  hint: --docs-url https://github.com/OWNER/gpu-ci/blob/COMMIT/docs"
        )
    if problems:
        raise InputError("\n".join(f"gpu-ci monitoring rules: {each}" for each in problems))
    pages = f"{docs_url.rstrip('/') or 'docs'}/"
    document = rule_file(Objectives(wait_sec, wait_ratio, failure_ratio), pages)
    if as_json:
        print_json(document)
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), nl=False)


@click.command("dashboard")
@click.option("--google", "stack", metavar="STACK",
              help="Print it for Cloud Monitoring, over the log-based metrics of this stack.")  # fmt: skip
@click.option("--manager", metavar="NAME", help="With --google: the name of a manager under `others`.")
@click.option("--json", "as_json", is_flag=True, help="Accepted as in every command; a dashboard is JSON anyway.")
def dashboard(stack: str | None, manager: str | None, as_json: bool) -> None:  # noqa: ARG001 - as its help says
    """Print the dashboard for Grafana, over the Prometheus metrics of the manager and the rules of gpu-ci.

    Grafana asks for the data source. With --google, the dashboard reads the log-based metrics of a manager on Cloud Run
    that has metrics: true.

    \b
    Examples:
      gpu-ci monitoring dashboard > gpu-ci.json
      gpu-ci monitoring dashboard --google prod > google.json
      gcloud monitoring dashboards create --config-from-file google.json
    """
    from gpu_ci.monitoring import log_metrics, panels

    if manager and stack is None:
        raise InputError(
            "gpu-ci monitoring dashboard: --manager has no effect without --google", hint="add --google STACK"
        )
    if stack is None:
        print_json(panels.grafana())
        return
    component = f"manager-{manager}" if manager else "manager"
    title = f"gpu-ci: runner {component} of {stack}"
    print_json(panels.google(lambda name, suffix: log_metrics.series(name, component, stack, suffix), title))
