"""Writes the reference pages of pools, image pipelines and components from the schema of the package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import gpu_catalog as catalog
import yaml
from gpu_catalog import Machine
from gpu_ci import schema as package_schema
from gpu_ci import versions
from gpu_ci.errors import in_yaml
from gpu_ci.gcp.machine import software
from gpu_ci.kinds import ComponentInfo
from gpu_ci.kinds import catalog as components
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.images import IMAGES
from gpu_ci.stack.parse import PROJECT
from gpu_ci.stack.pools import POOLS
from gpu_ci.stack.site import SITE

from tools.docs import examples

# The labels with which the docstring of a component can begin a line.
LABELS = ("Creates: ", "Costs: ", "Does not: ", "Replaces on change of: ")
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
# A component refers to the fields of another one if it has at least this number of them.
SHARED_FIELDS = 3
# The field of every component, which the head of a page describes once.
TRANSFORM = "transform"
# Where the schema has the type of the entries of a list or a map.
ENTRY = ("items", "additionalProperties")


@cache
def schema() -> dict[str, Any]:
    """Return the schema of the package: each field says if it is required, and has the values of its enum.

    Types have short names, because types of one name are the same in every cloud.
    """
    full = package_schema.schema()
    enums = {name: [row["value"] for row in each["enum"]] for name, each in full["types"].items() if "enum" in each}

    def plain(item: Any) -> Any:
        if isinstance(item, list):
            return [plain(each) for each in item]
        if not isinstance(item, dict):
            return item
        name = item.get("$ref", "").removeprefix("#/types/")
        if name == "pulumi.json#/Any":
            return {"type": "any value"}
        rest = {key: plain(value) for key, value in item.items() if key != "$ref"}
        if name in enums:
            return {**rest, "values": enums[name]}
        return {**rest, "$ref": name.rpartition(":")[2]} if name else rest

    def fields(owner: dict[str, Any], key: str, required: str) -> dict[str, Any]:
        return {name: {**plain(each), "required": name in owner.get(required, ())} for name, each in owner[key].items()}

    return {
        "resources": {
            token: {**each, "inputProperties": fields(each, "inputProperties", "requiredInputs")}
            for token, each in full["resources"].items()
        },
        "types": {
            name.rpartition(":")[2]: fields(each, "properties", "required")
            for name, each in full["types"].items()
            if name not in enums
        },
    }


class Row(NamedTuple):
    """What a page says about a field."""

    name: str
    type: str
    default: str
    text: str


class Section(NamedTuple):
    """The table of a component or of a type: its page, its heading, and the fields in it."""

    file: str
    heading: str
    fields: dict[str, Any]


class Page(NamedTuple):
    """One page and its components. The program of a stack file reads the components of `stack_key`."""

    file: str
    title: str
    guide: str
    infos: list[ComponentInfo]
    stack_key: str = ""


def pages() -> dict[str, str]:
    """Return the text of each page, by its path below docs/."""
    return _written()[0]


def sections() -> list[Section]:
    """Return the tables of these pages."""
    return _written()[1]


@cache
def _written() -> tuple[dict[str, str], list[Section]]:
    """Return the pages and their tables. A type is described on the first page that uses it."""
    homes: dict[str, str] = {}
    for page in _pages():
        for info in page.infos:
            for name in _nested(_inputs(info)):
                homes.setdefault(name, page.file)
    sections: list[Section] = []
    return {page.file: "\n".join(_lines(page, homes, sections)) for page in _pages()}, sections


def _pages() -> list[Page]:
    of_pools = [each for each in components() if each.kind]
    of_images = [each for each in components() if each.image_kind]
    rest = [each for each in components() if not each.kind and not each.image_kind]
    clouds = {
        "gcp": ("Google Cloud", "[Google Cloud](../guides/compute-engine.md)"),
        "aws": ("AWS", "[AWS](../guides/eks.md)"),
        "kubernetes": ("Kubernetes", "[Kubernetes](../guides/kubernetes.md)"),
        "github": ("GitHub", "[GitHub](../guides/github.md)"),
    }
    return [
        Page("reference/pools.md", "Pools: kinds and fields", "[add a pool](../start/add-a-pool.md)",
             sorted(of_pools, key=lambda each: (not each.kind.endswith("-runners"), each.kind)), POOLS),
        Page("reference/image-pipelines.md", "Image pipelines: kinds and fields",
             "[image pipelines](../guides/image-pipelines.md)",
             sorted(of_images, key=lambda each: each.image_kind), IMAGES),
        *(
            Page(f"reference/{cloud}-components.md", f"{title}: components and fields",
                 f"{guide}, [in your own program](../guides/other-programs.md)",
                 [each for each in rest if each.cloud == cloud])
            for cloud, (title, guide) in clouds.items()
        ),
    ]  # fmt: skip


def _nested(fields: dict[str, Any]) -> dict[str, None]:
    """Return the names of the types below these fields, in order."""
    found: dict[str, None] = {}
    for item in fields.values():
        while key := next((each for each in ENTRY if each in item), ""):
            item = item[key]
        for name in (each["$ref"] for each in item.get("oneOf", [item]) if "$ref" in each):
            found |= {name: None, **_nested(schema()["types"][name])}
    return found


def _lines(page: Page, homes: dict[str, str], sections: list[Section]) -> Iterator[str]:
    yield f"# {page.title}"
    yield ""
    yield f"Generated from the components by `make docs`. How to use it: {page.guide}."
    yield "A field with the type *(output)* also takes the output of another resource."
    without = [f"`{_heading(each)}`" for each in page.infos if TRANSFORM not in _inputs(each)]
    components = f"Every component except {' and '.join(without)}" if without else "Every component"
    yield f"{components} also has the field `{TRANSFORM}`, for [changes of its resources](../guides/transform.md)."
    yield ""
    if page.stack_key:
        yield "| kind | what you get |"
        yield "|---|---|"
        for info in page.infos:
            yield f"| [`{_heading(info)}`](#{_heading(info)}) | {(info.load().__doc__ or '').splitlines()[0]} |"
        yield ""
    tables = _Tables(page.file, homes, sections)
    for info in page.infos:
        yield from _component(page, info, tables)
    if page.stack_key:
        yield from _set_by_program(page, tables)
    for name in (name for name, home in homes.items() if home == page.file):
        yield f"## {name}"
        yield ""
        yield from tables.described(name, schema()["types"][name], listed=True)
    if page.stack_key == POOLS:
        yield from _gpus()


def _component(page: Page, info: ComponentInfo, tables: _Tables) -> Iterator[str]:
    component, resource = info.load(), schema()["resources"][info.token]
    fields = resource["inputProperties"]
    yield f"## {_heading(info)}"
    yield ""
    imported = f"`{examples.import_of(info)}.{info.name}` in Python, " if page.stack_key else ""
    yield f"{imported}`{info.token}` through the plugin."
    for paragraph in resource["description"].split("\n\n"):
        yield ""
        yield from described(paragraph)
    yield ""
    if page.stack_key:
        fields = {name: fields[name] for name in component.ARGS.choice_names()}
        name, kind = info.load().ENTRY_NAME, _heading(info)
        example = {"config": {page.stack_key: {name: {"kind": kind, **component.EXAMPLE}}}}
        yield "```yaml"
        yield yaml.safe_dump(example, sort_keys=False, default_flow_style=None, width=100).rstrip()
    else:
        yield "```python"
        yield examples.python(info, examples.arguments(info, resource))
    yield "```"
    yield ""
    yield from tables.described(_heading(info), fields)
    yield "Outputs:"
    yield ""
    for name, value in resource["properties"].items():
        yield f"- `{name}`: {value['description']}"
    yield ""


def _heading(info: ComponentInfo) -> str:
    return info.kind or info.image_kind or info.name


def _inputs(info: ComponentInfo) -> dict[str, Any]:
    inputs: dict[str, Any] = schema()["resources"][info.token]["inputProperties"]
    return inputs


def _set_by_program(page: Page, tables: _Tables) -> Iterator[str]:
    """Yield the fields that no stack file has, each once: in a table, or by the component that describes it."""
    kinds: dict[str, list[str]] = {}
    for info in page.infos:
        for name in _inputs(info).keys() - set(info.load().ARGS.choice_names()):
            kinds.setdefault(name, []).append(f"`{_heading(info)}`")
    keys = ", ".join(dict.fromkeys(f"`{SET_FROM[name]}`" for name in sorted(kinds) if name in SET_FROM))
    yield "## Fields that the program sets"
    yield ""
    yield f"The program of the stack file sets these fields from {keys}. In your own program, set them yourself:"
    yield ""
    parts = [(other, info) for other in _pages() if not other.stack_key for info in other.infos]
    described: dict[str, list[str]] = {}
    rows = []
    for name, users in sorted(kinds.items()):
        fields = [_inputs(info)[name] for info in page.infos if f"`{_heading(info)}`" in users]
        text, _ = Counter(_text(each) for each in fields).most_common(1)[0]
        same = [each for each in parts if name in _inputs(each[1]) and _text(_inputs(each[1])[name]) == text]
        if same:
            other, most_alike = max(same, key=lambda each: len(kinds.keys() & _inputs(each[1]).keys()))
            section = Section(other.file, most_alike.name, {})
            described.setdefault(f"[`{section.heading}`]({tables.link(section)})", []).append(f"`{name}`")
        else:
            rows.append(f"| `{name}` | {tables.type_of(fields[0])} | {', '.join(users)} | {text} |")
    for component, names in described.items():
        yield f"- as for {component}: {', '.join(names)}"
    yield from ("", "| field | type | kinds | what it is |", "|---|---|---|---|", *rows, "")


class _Tables:
    """Writes the tables of fields of one page."""

    def __init__(self, file: str, homes: dict[str, str], sections: list[Section]) -> None:
        self.file = file
        self.homes = homes
        self.sections = sections

    def described(self, heading: str, fields: dict[str, Any], listed: bool = False) -> Iterator[str]:
        """Yield the fields of a component as a table, or of a type as a list, without the field of every component."""
        if other := self.most_alike(fields):
            shared = [name for name, each in fields.items() if other.fields.get(name) == each]
            named = (f"`{name}`" for name in shared if name != TRANSFORM)
            yield f"As for [`{other.heading}`]({self.link(other)}): {', '.join(named)}."
            yield ""
            fields = {name: each for name, each in fields.items() if name not in shared}
        self.sections.append(Section(self.file, heading, fields))
        rows = []
        for name, each in fields.items():
            default = "required" if each["required"] else f"`{in_yaml(each['default'])}`" if "default" in each else ""
            type_ = self.type_of(each) + ("" if each.get("plain") else " (output)")
            rows += [Row(f"`{name}`", type_, default, _text(each))] if name != TRANSFORM else []
        yield from in_list(rows) if listed else in_table(rows)

    def most_alike(self, fields: dict[str, Any]) -> Section | None:
        """Return the earlier section with most of these fields, if it has enough of them."""
        alike = [sum(each.fields.get(name) == field for name, field in fields.items()) for each in self.sections]
        most = max(alike, default=0)
        return self.sections[alike.index(most)] if most >= SHARED_FIELDS else None

    def link(self, section: Section) -> str:
        """Return the address of a section, as seen from this page."""
        file = "" if section.file == self.file else section.file.removeprefix("reference/")
        return f"{file}#{section.heading.lower()}"

    def type_of(self, item: dict[str, Any]) -> str:
        """Return the name of a field's type. An object is a link to its table."""
        if "oneOf" in item:
            return " or ".join(self.type_of(each) for each in item["oneOf"])
        if "const" in item or "values" in item:
            return " or ".join(f"`{each}`" for each in item.get("values", [item.get("const")]))
        if name := item.get("$ref"):
            return f"[{name}]({self.link(Section(self.homes[name], name, {}))})"
        if item["type"] == "array":
            return f"list of {self.type_of(item['items'])}"
        if item["type"] == "object":
            return f"map of {self.type_of(item['additionalProperties'])}"
        return "text" if item["type"] == "string" else str(item["type"])


def _text(item: dict[str, Any]) -> str:
    text: str = item["description"].replace("|", "\\|").replace("<", "&lt;")
    return text


def in_list(rows: list[Row]) -> Iterator[str]:
    """Yield the fields as a list."""
    for row in rows:
        default = row.default if row.default in ("", "required") else f"default {row.default}"
        yield f"- {row.name} ({', '.join(filter(None, (row.type, default)))}): {row.text}"
    yield from [""] if rows else []


def in_table(rows: list[Row]) -> Iterator[str]:
    """Yield the fields as a table."""
    if rows:
        yield from ("| field | type | default | what it is |", "|---|---|---|---|")
        yield from (f"| {' | '.join(row)} |" for row in rows)
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


def _gpus() -> Iterator[str]:
    """Yield the table of the machine types of pools on Google Cloud, from the catalog."""
    yield "## GPUs on Google Cloud"
    yield ""
    yield "The machine types that a pool can have. No page of Google confirms an unverified market: the smoke check of"
    yield "the template finds out if it works. The facts and their sources are in"
    yield "[catalog/gpu_catalog/data](../../catalog/gpu_catalog/data)."
    yield ""
    yield "| GPU | memory each | compute capability | machineType (number of GPUs) | market |"
    yield "|---|---|---|---|---|"
    groups: dict[tuple[str, int, str, str], list[str]] = {}
    torch_needed: dict[str, str] = {}
    for each in catalog.machines(cloud="gcp", n1=False):
        groups.setdefault(_group(each), []).append(f"`{each.machine_type}` ({each.gpu_count:g})")
        torch_needed |= _torch_version(each)
    for accelerator in catalog.attachable():
        each = catalog.attached("n1-standard-4", accelerator)
        counts = ", ".join(map(str, catalog.attachment_counts(accelerator)))
        groups[_group(each)] = [f"`n1-*` with `guestAccelerator: {{type: {accelerator}}}` ({counts})"]
        torch_needed |= _torch_version(each)
    for (name, memory, capability, markets), types in groups.items():
        yield f"| {name} | {memory} GB | {capability} | {', '.join(types)} | {markets} |"
    yield ""
    yield f"torch {versions.TORCH}, the default, does not run on these GPUs. The newest version that does:"
    yield ""
    yield from (f"- {name}: `torch: {instead}`" for name, instead in torch_needed.items())
    yield ""


def _group(machine: Machine) -> tuple[str, int, str, str]:
    gpu = machine.gpu
    markets = [f"`{market}`" for market in machine.markets]
    markets += [f"`{market}` (unverified)" for market in machine.unverified_markets]
    return gpu.device_name, gpu.memory_gib, gpu.compute_capability, " or ".join(markets)


def _torch_version(machine: Machine) -> dict[str, str]:
    """Return the version of torch that a machine needs instead of the default, by the name of its GPU."""
    torch = software.torch_instead(machine)
    return {f"{machine.gpu.device_name} ({machine.architecture})": torch} if torch else {}
