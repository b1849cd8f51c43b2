"""Build error responses in the form of the Compute Engine API."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

CREDENTIALS = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. "
    "See https://developers.google.com/identity/sign-in/web/devconsole-project."
)


class GoogleError(Exception):
    """A response with an error status; `str()` gives the message that a client library shows."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    def body(self) -> Json:
        error: Json = {
            "code": self.status,
            "message": self.message,
            "errors": [{"message": self.message, "domain": "global", "reason": self.reason}],
        }
        return {"error": error}

    def __str__(self) -> str:
        """Return the text that the provider's Go client library prints (google.golang.org/api/googleapi.Error)."""
        return f"googleapi: Error {self.status}: {self.message}, {self.reason}"


def unauthenticated() -> GoogleError:
    """Return the error of a request without a bearer token, or with one that Google did not issue."""
    return GoogleError(401, "required", f"Request is missing required authentication credential. {CREDENTIALS}")


def not_found(path: str) -> GoogleError:
    return GoogleError(404, "notFound", f"The resource '{path}' was not found")


def not_ready(path: str) -> GoogleError:
    """Return the error for a resource that another operation is changing."""
    return GoogleError(400, "resourceNotReady", f"The resource '{path}' is not ready")


def already_exists(path: str) -> GoogleError:
    return GoogleError(409, "alreadyExists", f"The resource '{path}' already exists")


def no_account(project: str, email: str) -> GoogleError:
    text = f"The resource 'projects/{project}/serviceAccounts/{email}' of type 'serviceAccount' was not found."
    return GoogleError(404, "notFound", text)


def unknown_account(email: str) -> Json:
    """Return the error of an insert operation whose service account Compute Engine does not know yet.

    The code and the message are those that ubicloud/ubicloud@b7181e8 recognizes (spec/prog/vm/gcp/nexus_spec.rb).
    """
    return {
        "code": "EXTERNAL_RESOURCE_NOT_FOUND",
        "message": f"The resource '{email}' of type 'serviceAccount' was not found.",
    }


def in_use(kind: str, path: str, user: str) -> GoogleError:
    return GoogleError(
        400, "resourceInUseByAnotherResource", f"The {kind} resource '{path}' is already being used by '{user}'"
    )


def invalid(field: str, value: str, reason: str) -> GoogleError:
    return GoogleError(400, "invalid", f"Invalid value for field '{field}': '{value}'. {reason}")


def stockout(project: str, zone: str, vm_type: str, attachment: str, other_zones: list[str]) -> Json:
    """Return the error of an insert operation in a zone without capacity.

    Source: Compute Engine "Resource availability errors"
    (docs.cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability).
    """
    metadatas = {"zone": zone, "vmType": vm_type, "attachment": attachment, "zonesAvailable": ",".join(other_zones)}
    info = {
        "reason": "resource_availability",
        "domain": "compute.googleapis.com",
        "metadatas": {key: value for key, value in metadatas.items() if value},
    }
    return {
        "code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
        "message": f"The zone 'projects/{project}/zones/{zone}' does not have enough resources available to fulfill "
        "the request.  '(resource type:compute)'.",
        "errorDetails": [{"errorInfo": info}],
    }


def quota(metric: str, region: str, limit: float = 0.0) -> Json:
    """Return the error of an insert operation above a quota. The family quotas of newer GPUs have a dimension."""
    name, _, family = metric.rstrip("}").partition("{gpu_family=")
    info = {
        "metricName": f"compute.googleapis.com/{'gpus_per_gpu_family' if family else name.lower()}",
        "limitName": f"{name.replace('_', '-')}-per-project-region",
        "dimensions": {"region": region} | ({"gpu_family": family} if family else {}),
        "limit": limit,
    }
    return {
        "code": "QUOTA_EXCEEDED",
        "message": f"Quota '{name}' exceeded.  Limit: {limit} in region {region}.",
        "errorDetails": [{"quotaInfo": info}],
    }


def private_pool_quota(project_number: str) -> str:
    """Return the provider's message for a private pool above the quota.

    Source: github.com/GoogleCloudPlatform/pbmm-on-gcp-onboarding/issues/434.
    """
    return (
        f'operation received error: error code "8", message: generic::resource_exhausted: project {project_number} has '
        "insufficient quota to create a new worker pool; see https://cloud.google.com/build/quotas, details: []\n"
        " details: map[]"
    )
