"""Writes the page docs/guides/policies.md from the rules of the policy pack."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpu_ci_policies.rule import Rule
from gpu_ci_policies.rules import RULES

BEFORE = """\
# Policies

Generated from [the rules](../../policies/gpu_ci_policies/rules.py) by `make docs`; a test fails if it is not current.

The policy pack in `policies/` checks any Pulumi program on AWS, Google Cloud, Kubernetes and GitHub, with or without
gpu-ci components. A broken mandatory rule fails the preview. During an `up`, the resource is not created. The exit code
is 1 in both cases.

## Use the pack

```
make policy                                                     the pack's own environment, .venv-policy
pulumi-sandbox preview --stack staging --policy-pack policies   offline
pulumi preview --stack staging --policy-pack policies           with the real clouds
pulumi up --stack staging --policy-pack policies --policy-pack-config policies.json
```

In another repository, check out gpu-ci and run `make -C gpu-ci policy`. Then use `--policy-pack gpu-ci/policies`
([on GitHub](preview-on-github.md#check-policies)).

- The pack has its own environment, because pulumi-policy 1.21 needs protobuf 5 (`policies/requirements.lock`).
- `pulumi-sandbox` also runs other packs in Python, each in the environment of its
  [PulumiPolicy.yaml](../../policies/PulumiPolicy.yaml).
- A value that is unknown during a preview breaks no rule. The `up` checks it again.
- Rules about prices and versions use the catalog, which `make policy` installs. Without the catalog, these rules are
  not checked.

## Rules

By default, all rules are mandatory, except the rules that are marked as advisory.

"""

SETTINGS = """\
## Settings

Settings are a JSON file with the names of the rules as keys. Unknown or wrong settings are refused before any resource
is checked. The message names the rule and the field, and the nearest known name. A wrong rule name with empty settings
(`{}`) is not detected, because the engine does not pass empty settings on.

`enforcementLevel` sets a rule to `mandatory`, `advisory` or `disabled`. The key `all` sets it for every rule, and
accepts no other setting.
"""

EXEMPTIONS = """\
## Exemptions

Each rule has a list `exempt`:

| field | value |
|---|---|
| `resource` | a URN or the name of a resource; `*` matches any text |
| `reason` | at least two words |
| `until` | the last day of the exemption |

The engine refuses an exemption without `reason` or `until`. After the last day the rule fails again, and the message
says that the exemption has expired. To exempt a whole stack from `spend-ceiling`, name the resource of the stack,
`<project>-<stack>`.
"""

EXAMPLE = {
    "required-labels": {"required": ["team", "environment"]},
    "spend-ceiling": {"maxUsdPerHour": 40},
    "runner-fresh": "mandatory",
    "no-public-ip": {
        "exempt": [
            {"resource": "*::debug-template", "reason": "until the VPN exists, see OPS-12", "until": "2027-01-31"}
        ]
    },
}

AFTER = """\
## Limits

- **Spend.** A Compute Engine instance group has no property with its maximum size. `spend-ceiling` uses the larger of
  two values: the output `cost` of a gpu-ci program, and the maximum cost of its node groups and single machines.
  Instance groups of other programs, disks and network traffic are not counted.
- **Cloud Build.** `no-public-ip` ignores the outgoing address of workers (`publicEgress`).
- **Secrets.** Pulumi's policy SDK passes every value in plain text, so no rule knows if a value is a secret in the
  state. Kubernetes Secrets are searched only for tokens.
- **Runner versions.** An image without the runner's version as its tag, such as `2.338.0`, is not checked.
- **ARC runners.** `max-run-duration` ignores their jobs. `timeout-minutes` of the workflow ends them.
"""

NEXT = """\
## Next

- [Preview a pull request](previews.md) with policies
- [Dangers](../reference/preview-dangers.md) that a preview reports without a policy pack
"""


def page() -> Iterator[str]:
    """Return the lines of the page."""
    yield from BEFORE.splitlines()
    yield "| rule | requirement |"
    yield "|---|---|"
    for rule in RULES:
        yield f"| [`{rule.name}`](#{rule.name}){level(rule)} | {rule.title} |"
    yield ""
    yield from SETTINGS.splitlines()
    yield ""
    yield "| rule | setting | default | meaning |"
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
    yield "## Each rule"
    yield ""
    for rule in RULES:
        yield from section(rule)
    yield from NEXT.splitlines()
    yield ""


def section(rule: Rule) -> Iterator[str]:
    """Return the lines about one rule: requirement, reason, fix and sources."""
    yield f"### {rule.name}"
    yield ""
    yield f"{rule.title}{level(rule)}"
    yield ""
    yield f"- Reason: {rule.why}"
    yield f"- Fix: {rule.fix}"
    yield f"- Sources: {', '.join(source(each) for each in rule.sources)}"
    yield ""


def level(rule: Rule) -> str:
    """Return the level of an advisory rule in brackets; nothing for a mandatory rule."""
    return "" if rule.level == "mandatory" else f" ({rule.level})"


def settings(rule: Rule) -> Iterator[str]:
    """Return a row of the table for each setting of the rule."""
    for name, schema in rule.settings.items():
        default = f"`{json.dumps(schema['default'])}`" if "default" in schema else "none"
        yield f"| `{rule.name}` | `{name}` | {default} | {schema['description']} |"


def source(named: str) -> str:
    """Return a source as a link, or as code if it is a file of this repository."""
    return f"<{named}>" if named.startswith("https://") else f"`{named}`"
