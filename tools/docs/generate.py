"""Writes the generated files of docs/ (`make docs`): pools, components, policies, checks, schemas."""

from __future__ import annotations

from pathlib import Path

from gpu_ci.program.keys import Keys
from gpu_ci.stack.schema import as_json, stack_schema

from tools.docs import (
    cloud_build_gpu,
    components,
    dangers,
    ends,
    floors,
    gpu_build_step,
    gpu_table,
    policies,
    preview_report,
    receipt,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"


def pages() -> dict[str, str]:
    """Return the text of every generated file, by its path below docs/."""
    return {
        **components.pages(),
        "pulumi-stack.schema.json": as_json(stack_schema(Keys, Keys.KEYS)),
        "reference/gpu-smoke-receipt.md": "\n".join(receipt.page()),
        "guides/policies.md": policies.page(),
        "reference/runner-ends.md": "\n".join(ends.page()),
        "reference/gpu-build-step.md": gpu_build_step.page(),
        "reference/preview-dangers.md": "\n".join(dangers.page()),
        "reference/gpu-floors.md": "\n".join(floors.page()),
        "../smoke/gpu_smoke/data/gpu_table.py": "\n".join(gpu_table.module()),
        "../examples/cloud-build-gpu/cloudbuild.yaml": cloud_build_gpu.file(),
        "preview-report.schema.json": preview_report.schema(),
    }


if __name__ == "__main__":
    for file, text in pages().items():
        (DOCS / file).write_text(text, encoding="utf-8")
