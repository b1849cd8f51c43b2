"""The settings of a training job, the custom job that they describe, and its cost."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple

import gpu_catalog
from gpu_common.secret_patterns import redact
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from gpu_ci.gcp.resource_names import NumberedNetwork, ServiceAccountEmail

ACCELERATORS = {
    "nvidia-tesla-p4": "NVIDIA_TESLA_P4",
    "nvidia-tesla-p100": "NVIDIA_TESLA_P100",
    "nvidia-tesla-v100": "NVIDIA_TESLA_V100",
    "nvidia-tesla-t4": "NVIDIA_TESLA_T4",
    "nvidia-tesla-a100": "NVIDIA_TESLA_A100",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB",
    "nvidia-l4": "NVIDIA_L4",
    "nvidia-h100-80gb": "NVIDIA_H100_80GB",
    "nvidia-h100-mega-80gb": "NVIDIA_H100_MEGA_80GB",
    "nvidia-h200-141gb": "NVIDIA_H200_141GB",
    "nvidia-b200": "NVIDIA_B200",
    "nvidia-gb200": "NVIDIA_GB200",
    "nvidia-rtx-pro-6000": "NVIDIA_RTX_PRO_6000",
}
"""Vertex AI's name of each of Compute Engine's accelerators (discovery document aiplatform v1, MachineSpec)."""
MARKETS: dict[str, gpu_catalog.Market] = {"STANDARD": "standard", "SPOT": "spot", "FLEX_START": "flex-start"}
"""The market of the catalog whose price each strategy has. A reservation costs the price of STANDARD."""
ATTEMPTS = 4
"""The most runs of a job with retries. Vertex AI restarts a failed job up to three times."""
_FLEX_START_MINUTES = 7 * 24 * 60  # the longest timeout with FLEX_START
_SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS)$", re.IGNORECASE
)
_SECRET_HINT = "let the container read secrets from Secret Manager, as serviceAccount"  # noqa: S105 - a hint


class _Hidden:
    """The annotation of a field whose invalid values are not shown, because they may be secrets."""

    secrecy = "redacted"


class Settings(BaseModel):
    """The settings of a training job."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, alias_generator=to_camel, strict=True
    )

    image: str = Field(
        pattern=r"^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+(:[\w.-]+)?@sha256:[0-9a-f]{64}$",
        examples=["europe-west4-docker.pkg.dev/acme/train/scan@sha256:…"],
    )
    """The image of the container with its digest, because a tag can move."""
    command: Annotated[list[str], _Hidden()] = []
    """The command, instead of the entrypoint of the image."""
    args: Annotated[list[str], _Hidden()] = []
    """The arguments of the command."""
    env: Annotated[dict[str, str], _Hidden(), Field(max_length=100)] = {}
    """The environment variables, as text and without secrets: every reader of the job sees them."""
    machine_type: str = Field(examples=["g2-standard-12"])
    """The machine type with its GPUs, as gpu-ci catalog names it; n1-standard-8+nvidia-tesla-t4x1 for N1."""
    replicas: int = Field(1, ge=1, le=1000)
    """The number of machines. The first one is a worker pool of its own, as Vertex AI requires."""
    strategy: Literal["STANDARD", "SPOT", "FLEX_START"] = "STANDARD"
    """STANDARD; SPOT: machines that may be preempted; FLEX_START: wait until all machines are available."""
    max_wait_minutes: int | None = Field(None, ge=1, le=30 * 24 * 60)
    """The most minutes that a job of FLEX_START waits for machines; a day by default."""
    reservation: str | None = Field(
        None,
        pattern=r"^projects/[a-z0-9.:-]+/zones/[a-z0-9-]+/reservations/[a-z]([-a-z0-9]{0,61}[a-z0-9])?$",
        examples=["projects/acme/zones/europe-west4-b/reservations/train"],
    )
    """The reservation that has the machines; only with STANDARD."""
    timeout_minutes: int = Field(ge=1, le=30 * 24 * 60, examples=[360])
    """The most minutes that the job runs. Vertex AI then ends it."""
    disable_retries: bool = True
    """Whether a failed job ends. With false, Vertex AI restarts it up to three times."""
    service_account: ServiceAccountEmail | None = Field(None, examples=["train@acme.iam.gserviceaccount.com"])
    """The account of the container; by default the Vertex AI Custom Code Service Agent of the project."""
    network: NumberedNetwork | None = Field(None, examples=["projects/123456789012/global/networks/train"])
    """The network with a peering to Vertex AI, with the number of its project."""

    @field_validator("command", "args")
    @classmethod
    def _no_secret(cls, value: list[str]) -> list[str]:
        from gpu_ci.errors import at_path, raise_problems

        raise_problems([at_path(_secret(), "", at) for at, each in enumerate(value) if redact(each) != each])
        return value

    @field_validator("env")
    @classmethod
    def _variables(cls, value: dict[str, str]) -> dict[str, str]:
        from gpu_ci.errors import at_path, invalid, raise_problems

        form = invalid("is not the name of a variable", expected="letters, digits and _, no digit first")
        problems = []
        for name, text in value.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                problems.append(at_path(form, name, name))
            elif _SECRET_NAME.search(name) or redact(text) != text:
                problems.append(at_path(_secret(), name, name))
        raise_problems(problems)
        return value

    @field_validator("machine_type")
    @classmethod
    def _machine(cls, value: str) -> str:
        from gpu_ci.errors import invalid

        try:
            found = gpu_catalog.machine(value, "gcp")
        except LookupError as error:
            text, _, hint = str(error).partition("; ")
            raise invalid(text, "unknown-machine", hint=hint or "gpu-ci catalog lists all of them") from None
        if found.accelerator not in ACCELERATORS or found.gpu_count < 1:
            part = f"{found.accelerator}" if found.gpu_count >= 1 else "a part of a GPU"
            raise invalid(f"has {part}, which Vertex AI does not offer", hint="gpu-ci catalog lists other machines")
        return value

    @field_validator("max_wait_minutes", "reservation", "timeout_minutes")
    @classmethod
    def _of_strategy(cls, value: Any, info: ValidationInfo) -> Any:
        strategy = info.data.get("strategy")  # None if it is wrong
        needed = {"max_wait_minutes": "FLEX_START", "reservation": "STANDARD"}.get(str(info.field_name))
        if value is None or strategy is None:
            return value
        from gpu_ci.errors import invalid

        if needed and strategy != needed:
            raise invalid(f"is only for the strategy {needed}", expected="nothing", hint=f"or strategy: {needed}")
        if not needed and strategy == "FLEX_START" and value > _FLEX_START_MINUTES:
            raise invalid("is too long for FLEX_START", expected=f"at most {_FLEX_START_MINUTES}, which are 7 days")
        return value

    @property
    def machine(self) -> gpu_catalog.Machine:
        return gpu_catalog.machine(self.machine_type, "gcp")


def _secret() -> Any:
    from gpu_ci.errors import invalid

    return invalid("looks like a secret", "secret-in-job", expected="no secret", safe_hint=_SECRET_HINT)


def job_spec(settings: Settings) -> dict[str, Any]:
    """Return the field jobSpec of a custom job."""
    machine = settings.machine
    affinity = {
        "reservationAffinityType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [settings.reservation],
    }
    container: dict[str, Any] = {
        "imageUri": settings.image,
        "command": settings.command,
        "args": settings.args,
        "env": [{"name": name, "value": value} for name, value in settings.env.items()],
    }
    pool = {
        "machineSpec": {
            "machineType": machine.machine_type,
            "acceleratorType": ACCELERATORS[machine.accelerator],
            "acceleratorCount": machine.api_gpu_count,
            **({"reservationAffinity": affinity} if settings.reservation else {}),
        },
        "containerSpec": {name: value for name, value in container.items() if value},
    }
    counts = [1, settings.replicas - 1] if settings.replicas > 1 else [1]
    wait = settings.max_wait_minutes
    return {
        "workerPoolSpecs": [{**pool, "replicaCount": str(count)} for count in counts],
        "scheduling": {
            "strategy": settings.strategy,
            "timeout": f"{60 * settings.timeout_minutes}s",
            "disableRetries": settings.disable_retries,
            **({"maxWaitDuration": f"{60 * wait}s"} if wait else {}),
        },
        **({"serviceAccount": settings.service_account} if settings.service_account else {}),
        **({"network": settings.network} if settings.network else {}),
    }


class Cost(NamedTuple):
    """The most that a job costs, in US dollars, or None if the catalog has no price; and how it is computed."""

    usd: float | None
    text: str


def worst_case(settings: Settings, region: str) -> Cost:
    """Return the cost of a job that runs until its timeout, at the price of Compute Engine.

    Vertex AI adds a fee of its own, which the catalog does not have.
    """
    hours, machine = settings.timeout_minutes / 60, settings.machine
    attempts = 1 if settings.disable_retries else ATTEMPTS
    factors = [f"{hours:.4g} h", f"{settings.replicas} x {settings.machine_type}"]
    factors += [f"{attempts} attempts"] if attempts > 1 else []
    market = MARKETS[settings.strategy]
    price = gpu_catalog.price(machine, region, market)
    if price is None:
        return Cost(None, f"unknown: the catalog has no {market} price in {region}; {', '.join(factors)}")
    usd = hours * settings.replicas * attempts * price.usd_per_hour
    day = f" of {price.date}" if price.date else ""
    rate = f"${price.usd_per_hour:,.4f} per hour, the {market} price of Compute Engine in {region}{day}"
    return Cost(round(usd, 2), f"${usd:,.2f} and the fee of Vertex AI: {', '.join(factors)}, {rate}")
