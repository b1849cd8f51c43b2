"""The page docs/guides/policies.md: every rule of the policy pack, from the rules themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpu_ci_policies.rule import Rule
from gpu_ci_policies.rules import RULES

BEFORE = """\
# Policies

Generated from [the rules](../../policies/gpu_ci_policies/rules.py) by `make docs`; a test fails when it is stale.

The policy pack in `policies/` is an ordinary one of Pulumi's, in Python. The engine asks it about every resource before
it makes it, in a preview too: a mandatory rule that is broken fails the preview, and in an `up` the resource is not
made. The pack looks at any Pulumi program on AWS, Google Cloud, Kubernetes and GitHub, with our components or without.

```
make policy                                                     the pack's own environment, .venv-policy
pulumi-sandbox preview --stack staging --policy-pack policies   offline
pulumi preview --stack staging --policy-pack policies           against the real clouds
pulumi up --stack staging --policy-pack policies --policy-pack-config policies.json
```

The environment is one of its own because pulumi-policy 1.21 needs protobuf 5 (`policies/requirements.lock`).
`pulumi-sandbox` runs other packs in Python too, each in the environment that its own settings name
([ours](../../policies/PulumiPolicy.yaml)).
Another repository uses the pack from a checkout of this one: `make -C gpu-ci policy`, then
`--policy-pack gpu-ci/policies` ([on GitHub](preview-on-github.md#check-policies)).
A preview or an `up` that breaks a mandatory rule ends with the exit code 1, as any other failure does.

In a preview much is unknown. What is unknown breaks no rule; the `up`, which knows it, asks again. A rule that reads
prices or versions asks the catalog, which `make policy` puts beside the pack; where that is missing, the rule is not
asked.

"""

SETTINGS = """\
## Settings

A JSON file, by the name of the rule. One that does not fit is refused before any resource is looked at, with the rule
and the field: values by the engine, and names of rules and settings that there are none of by the pack, with the
nearest there is. (The engine keeps a name to itself whose settings are empty, `{}`.) `enforcementLevel` makes any rule
`mandatory`, `advisory` or `disabled`; `all` stands for every rule, and takes nothing else.
"""

EXEMPTIONS = """\
## Exemptions

Each rule takes `exempt`, a list. `resource` is a URN or the name of a resource, with `*` for any part of it. `reason`
is at least two words and `until` the last day on which the exemption holds; without either the engine refuses the
configuration. After that day the rule fails again, and says that the exemption has expired. To exempt a stack as a
whole from `spend-ceiling`, name the stack's own resource, `<project>-<stack>`.
"""

EXAMPLE = {
    "required-labels": {"required": ["team", "environment"]},
    "spend-ceiling": {"maxUsdPerHour": 40},
    "runner-fresh": "mandatory",
    "no-public-ip": {
        "exempt": [
            {"resource": "*::debug-template", "reason": "until the VPN is there, see OPS-12", "until": "2027-01-31"}
        ]
    },
}

AFTER = """\
## What they do not see

- The most machines of a group on Compute Engine stands in none of its properties. `spend-ceiling` takes what our own
  program says of its pools (the output `cost`) or what node groups and single machines may cost, whichever is more;
  other programs with groups on Compute Engine, disks and traffic count for nothing.
- Workers of Cloud Build may have an address for their way out (`publicEgress`); `no-public-ip` says nothing of it.
- Whether a value is a secret in the state: the SDK hands the pack every value in the clear. Kubernetes Secrets are
  searched for tokens alone.
- Images that do not say which runner they hold, by a tag such as `2.338.0`, are neither too old nor fresh.
- Jobs of ARC's runners: GitHub ends them by `timeout-minutes`.
"""


def page() -> Iterator[str]:
    """The lines of the page."""
    yield from BEFORE.splitlines()
    yield "| rule | what must be so | why | how to mend it |"
    yield "|---|---|---|---|"
    for rule in RULES:
        level = "" if rule.level == "mandatory" else f" ({rule.level})"
        yield f"| `{rule.name}`{level} | {rule.title} | {rule.why} | {rule.fix} |"
    yield ""
    yield from SETTINGS.splitlines()
    yield ""
    yield "| rule | setting | default | what it is |"
    yield "|---|---|---|---|"
    for rule in RULES:
        yield from settings(rule)
    yield ""
    yield "```json"
    yield from json.dumps(EXAMPLE, indent=2).splitlines()
    yield "```"
    yield ""
    yield from EXEMPTIONS.splitlines()
    yield ""
    yield from AFTER.splitlines()
    yield ""
    yield "## Sources"
    yield ""
    for rule in RULES:
        yield f"- `{rule.name}`: {', '.join(source(each) for each in rule.sources)}"
    yield ""


def settings(rule: Rule) -> Iterator[str]:
    for name, schema in rule.settings.items():
        default = f"`{json.dumps(schema['default'])}`" if "default" in schema else "none"
        yield f"| `{rule.name}` | `{name}` | {default} | {schema['description']} |"


def source(named: str) -> str:
    return f"<{named}>" if named.startswith("https://") else f"`{named}`"
