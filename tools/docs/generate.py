"""Writes the generated files of docs/ (`make docs`): pools, components, policies, checks, schemas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from gpu_ci import catalog, kinds, versions
from gpu_ci.catalog import Machine
from gpu_ci.component import Component
from gpu_ci.errors import in_yaml
from gpu_ci.gcp.machine import software
from gpu_ci.kinds import catalog as kinds_catalog
from gpu_ci.kinds import image_component_for, image_kind_names
from gpu_ci.program.keys import Keys
from gpu_ci.schema import schema
from gpu_ci.stack.checks import PROJECT
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.images import IMAGES
from gpu_ci.stack.pools import POOLS
from gpu_ci.stack.schema import as_json, stack_schema
from gpu_ci.stack.site import SITE

from tools.docs import (
    agreement,
    cloud_build_gpu,
    dangers,
    emulation_page,
    ends,
    floors,
    gpu_build_step,
    kubernetes_agreement,
    policies,
    preview_report,
    receipt,
    snippets,
    specs,
)
from tools.images import matrix, sizes

DOCS = Path(__file__).resolve().parents[2] / "docs"
# The name of the pool in the example of a kind, if it is not l4.
# The labels with which the docstring of a component can begin a line.
LABELS = ("Creates: ", "Costs: ", "Does not: ", "Replaces on change of: ")
POOL_NAMES = {
    "cloud-build": "builds",
    "cloud-build-gpu": "gpu-tests",
    "container": "runner",
    "host": "gpu-host",
    "ami": "eks-gpu",
}
# The key of the stack file from which the program sets a field.
SET_FROM = {
    "project": PROJECT,
    "subnetwork": f"{SITE}.subnetworks",
    "labels": f"{SITE}.labels",
    "tags": f"{SITE}.labels",
    "pinned": POOLS,
    "githubConfigUrl": f"{SITE}.github",
    "github": f"{SITE}.github",
    "subnets": CLUSTERS,
}
# The guide to the components of each cloud.
GUIDES = {"aws": "eks.md", "gcp": "compute-engine.md", "github": "github.md", "kubernetes": "kubernetes.md"}


def pages() -> dict[str, str]:
    """Return the text of every generated file, by its path below docs/."""
    return {
        "reference/pools.md": "\n".join(pools_page()),
        "reference/image-pipelines.md": "\n".join(image_pipelines_page()),
        "reference/aws-components.md": "\n".join(components_page("aws", "AWS")),
        "reference/gcp-components.md": "\n".join(components_page("gcp", "Google Cloud")),
        "reference/github-components.md": "\n".join(components_page("github", "GitHub")),
        "reference/kubernetes-components.md": "\n".join(components_page("kubernetes", "Kubernetes")),
        "pulumi-stack.schema.json": as_json(stack_schema(Keys, Keys.KEYS)),
        "reference/catalog-agreement.md": "\n".join(agreement.page()),
        "reference/kubernetes-agreement.md": "\n".join(kubernetes_agreement.page()),
        "reference/gpu-smoke-receipt.md": "\n".join(receipt.page()),
        "reference/emulation.md": "\n".join(emulation_page.page()),
        "guides/policies.md": "\n".join(policies.page()),
        "reference/runner-ends.md": "\n".join(ends.page()),
        "reference/gpu-build-step.md": "\n".join(gpu_build_step.page()),
        "reference/preview-dangers.md": "\n".join(dangers.page()),
        "reference/gpu-floors.md": "\n".join(floors.page()),
        "reference/image-matrix.md": "\n".join(matrix.page()),
        "../images/matrix.json": matrix.as_json(),
        "../examples/cloud-build-gpu/cloudbuild.yaml": cloud_build_gpu.file(),
        "reference/image-sizes.md": "\n".join(sizes.page()),
        "gpu-smoke-specs.schema.json": specs.schema(),
        "preview-report.schema.json": preview_report.schema(),
    }


def pools_page() -> Iterator[str]:
    yield from kinds_page("Pools", "[add a pool](../start/add-a-pool.md)", kinds(), POOLS)
    yield ""
    yield from gpu_section()


def image_pipelines_page() -> Iterator[str]:
    components = {kind: image_component_for(kind) for kind in image_kind_names()}
    yield from kinds_page("Image pipelines", "[image pipelines](../guides/image-pipelines.md)", components, IMAGES)


def kinds_page(title: str, guide: str, components: dict[str, type[Component]], key: str) -> Iterator[str]:
    package_schema = schema()
    yield f"# {title}: kinds and fields"
    yield ""
    yield "Generated from the components by `make docs`; a test fails if this page is not current."
    yield f"How to use it: {guide}."
    yield ""
    yield "| kind | what you get |"
    yield "|---|---|"
    for kind, component in components.items():
        yield f"| [`{kind}`](#{kind}) | {(component.__doc__ or '').splitlines()[0]} |"
    for kind, component in components.items():
        yield ""
        yield from kind_section(kind, component, package_schema, key)


def kind_section(kind: str, component: type[Component], package_schema: dict[str, Any], key: str) -> Iterator[str]:
    resource = package_schema["resources"][component.TYPE]
    set_by_program = [name for name in resource["inputProperties"] if name not in component.ARGS.choice_names()]
    yield f"## {kind}"
    yield ""
    for paragraph in resource["description"].split("\n\n"):
        yield from described(paragraph)
        yield ""
    yield "```yaml"
    example = {"config": {key: {POOL_NAMES.get(kind, "l4"): {"kind": kind, **component.EXAMPLE}}}}
    yield yaml.safe_dump(example, sort_keys=False, default_flow_style=None, width=100).rstrip()
    yield "```"
    yield ""
    yield "| field | type | default | what it is |"
    yield "|---|---|---|---|"
    yield from rows(resource, package_schema, component.ARGS.choice_names())
    yield ""
    keys = ", ".join(f"`{SET_FROM[name]}`" for name in set_by_program if name in SET_FROM)
    yield f"The program sets these fields from the site ({keys})."
    yield f"Set them yourself if you use `{component.__module__}.{component.__name__}` in Python, or"
    yield f"`{component.TYPE}` through the plugin:"
    yield ""
    yield "| field | type | default | what it is |"
    yield "|---|---|---|---|"
    yield from rows(resource, package_schema, set_by_program)
    yield ""
    yield "| output | what it is |"
    yield "|---|---|"
    for name, value in resource["properties"].items():
        yield f"| `{name}` | {value['description']} |"
    yield ""
    yield f"### {component.__name__} in a program"
    yield ""
    yield "[Use components in your own program](../guides/other-programs.md) has the first steps."
    yield ""
    (info,) = [each for each in kinds_catalog() if each.token == component.TYPE]
    yield from snippets.section(info, resource, package_schema)


def components_page(cloud: str, title: str) -> Iterator[str]:
    """Yield the page of the components of one cloud, without pools."""
    package_schema = schema()
    yield f"# {title}: components and fields"
    yield ""
    yield "Generated from the components by `make docs`; a test fails if this page is not current."
    yield f"How to use them: [{title}](../guides/{GUIDES[cloud]}), and"
    yield "[use components in your own program](../guides/other-programs.md)."
    for each in kinds_catalog():
        if each.kind or each.image_kind or each.token.split(":")[1] != cloud:
            continue
        resource = package_schema["resources"][each.token]
        yield ""
        yield f"## {each.name}"
        yield ""
        yield f"`{each.module}.{each.name}` in Python, `{each.token}` through the plugin."
        for paragraph in resource["description"].split("\n\n"):
            yield ""
            yield from described(paragraph)
        yield ""
        yield from snippets.section(each, resource, package_schema)
        yield "| field | type | default | what it is |"
        yield "|---|---|---|---|"
        yield from rows(resource, package_schema, resource["inputProperties"])
        yield ""
        yield "| output | what it is |"
        yield "|---|---|"
        for name, value in resource["properties"].items():
            yield f"| `{name}` | {value['description']} |"
    yield ""


def described(paragraph: str) -> list[str]:
    """Return a paragraph of a docstring as lines: a list item for each labelled part (`Creates: …`), or one line."""
    lines: list[str] = []
    for line in paragraph.splitlines():
        is_labelled = line.startswith(LABELS)
        if is_labelled or not lines:
            lines.append(f"- {line}" if is_labelled else line)
        else:
            lines[-1] += f" {line}"
    return lines


def rows(owner: dict[str, Any], package_schema: dict[str, Any], names: Any, prefix: str = "") -> Iterator[str]:
    """Yield a row for each field. The fields of an object follow the object."""
    fields = owner.get("inputProperties") or owner["properties"]
    required = owner["requiredInputs"] if "requiredInputs" in owner else owner.get("required", [])
    for name in names:
        field = fields[name]
        field_name, item_type = f"{prefix}{name}", field
        # The entries of a list or map get a suffix, such as [] for a list.
        while key := next((each for each in snippets.ENTRY if each in item_type), ""):
            field_name, item_type = f"{field_name}{snippets.ENTRY[key]}", item_type[key]
        choices = [each["$ref"] for each in item_type.get("oneOf", [item_type]) if "$ref" in each]
        default = "required" if name in required else f"`{in_yaml(field['default'])}`" if "default" in field else ""
        text = field["description"].replace("|", "\\|").replace("<", "&lt;")
        yield f"| `{prefix}{name}` | {type_of(field, package_schema)} | {default} | {text} |"
        for choice in choices:
            nested = package_schema["types"][choice.removeprefix("#/types/")]
            if nested["type"] == "object":
                yield from rows(nested, package_schema, nested["properties"], f"{field_name}.")


def type_of(field: dict[str, Any], package_schema: dict[str, Any]) -> str:
    """Return the name of a field's type."""
    if "oneOf" in field:
        return "map"
    if "const" in field:
        return f"`{field['const']}`"
    if "$ref" in field:
        named = package_schema["types"][field["$ref"].removeprefix("#/types/")]
        return " or ".join(f"`{each['value']}`" for each in named["enum"]) if "enum" in named else "map"
    if field["type"] == "array":
        return f"list of {type_of(field['items'], package_schema)}"
    if field["type"] == "object":
        return f"map of {type_of(field['additionalProperties'], package_schema)}"
    return {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}[field["type"]]


def gpu_section() -> Iterator[str]:
    """Yield the table of the machine types of pools on Google Cloud, from the catalog."""
    yield "## GPUs on Google Cloud"
    yield ""
    yield "The machine types that a pool can have. The error for a wrong zone names the zones that have the type."
    yield "The facts and their sources are in [catalog/gpu_catalog/data](../../catalog/gpu_catalog/data)."
    yield "No page of Google confirms an unverified market. A pool can use it, and the smoke check of the template"
    yield "finds out if it works."
    yield ""
    yield "| GPU | memory each | compute capability | machineType (number of GPUs) | market |"
    yield "|---|---|---|---|---|"
    groups: dict[tuple[str, int, str, str], list[str]] = {}
    torch_needed: dict[str, str] = {}
    for each in catalog.machines(cloud="gcp", n1=False):
        gpu = each.gpu
        key = (gpu.device_name, gpu.memory_gib, gpu.compute_capability, market_text(each))
        groups.setdefault(key, []).append(f"`{each.machine_type}` ({each.gpu_count:g})")
        torch_needed |= torch_version(each)
    for accelerator in catalog.attachable():
        each = catalog.attached("n1-standard-4", accelerator)
        counts = ", ".join(map(str, catalog.attachment_counts(accelerator)))
        key = (each.gpu.device_name, each.gpu.memory_gib, each.gpu.compute_capability, market_text(each))
        groups[key] = [f"`n1-*` with `guestAccelerator: {{type: {accelerator}}}` ({counts})"]
        torch_needed |= torch_version(each)
    for (name, memory, capability, markets), types in groups.items():
        yield f"| {name} | {memory} GB | {capability} | {', '.join(types)} | {markets} |"
    yield ""
    yield f"torch {versions.TORCH}, the default, does not run on these GPUs. The newest version that does:"
    yield ""
    yield from (f"- {name}: `torch: {instead}`" for name, instead in torch_needed.items())
    yield ""


def torch_version(machine: Machine) -> dict[str, str]:
    """Return the version of torch that a machine needs instead of the default, by the name of its GPU."""
    torch = software.torch_instead(machine)
    return {f"{machine.gpu.device_name} ({machine.architecture})": torch} if torch else {}


def market_text(machine: Machine) -> str:
    """Return the markets of a machine. A market that no source confirms is marked as unverified."""
    return " or ".join(
        [f"`{market}`" for market in machine.markets]
        + [f"`{market}` (unverified)" for market in machine.unverified_markets]
    )


if __name__ == "__main__":
    for file, text in pages().items():
        (DOCS / file).write_text(text, encoding="utf-8")
