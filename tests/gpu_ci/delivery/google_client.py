"""Reads requests and answers with google-cloud-aiplatform. It runs in .venv-vertex, without this project.

    python google_client.py ADDRESS ENDPOINT < requests.json

Prints the state of the endpoint as the client reads it, as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings

warnings.simplefilter("ignore")

from google.api_core.exceptions import GoogleAPICallError  # noqa: E402
from google.auth.credentials import AnonymousCredentials  # noqa: E402
from google.cloud import aiplatform_v1  # noqa: E402
from google.cloud.aiplatform_v1.services.endpoint_service.transports import EndpointServiceRestTransport  # noqa: E402
from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceRestTransport  # noqa: E402
from google.protobuf import json_format  # noqa: E402
from google.protobuf.field_mask_pb2 import FieldMask  # noqa: E402


def parse(method: str, path: str, query: dict[str, list[str]], body: object) -> None:
    """Raise ParseError if a field of a request is unknown, or has a value of another type."""
    if path.startswith("/v3/"):
        return
    messages = {
        ":deployModel": aiplatform_v1.DeployModelRequest,
        ":undeployModel": aiplatform_v1.UndeployModelRequest,
        "/customJobs": aiplatform_v1.CustomJob,
        ":cancel": aiplatform_v1.CancelCustomJobRequest,
    }
    kind = next((each for suffix, each in messages.items() if path.endswith(suffix)), aiplatform_v1.Endpoint)
    if body is not None:
        json_format.ParseDict(body, kind.pb(kind()))
    for mask in query.get("updateMask", ()):
        json_format.Parse(json.dumps(mask), FieldMask())


def main(address: str, name: str) -> None:
    refused = []
    for request in json.load(sys.stdin):
        try:
            parse(*request)
        except json_format.ParseError as error:
            refused.append(str(error))
    if "/customJobs/" in name:
        print(json.dumps({"refused": refused, **jobs(address, name)}))
        return
    transport = EndpointServiceRestTransport(
        host=address.removeprefix("http://"), url_scheme="http", credentials=AnonymousCredentials()
    )
    client = aiplatform_v1.EndpointServiceClient(transport=transport)
    endpoint = client.get_endpoint(name=name)
    errors = []
    for split in ({"4711": 100}, {next(iter(endpoint.traffic_split)): 105}):
        changed = aiplatform_v1.Endpoint(name=name, etag=endpoint.etag, traffic_split=split)
        try:
            client.update_endpoint(endpoint=changed, update_mask=FieldMask(paths=["traffic_split"]))
        except GoogleAPICallError as error:
            errors.append(error.code)
    stale = aiplatform_v1.Endpoint(name=name, etag="old", traffic_split=endpoint.traffic_split)
    try:
        client.update_endpoint(endpoint=stale, update_mask=FieldMask(paths=["traffic_split"]))
    except GoogleAPICallError as error:
        errors.append(error.code)
    deployed = client.deploy_model(
        endpoint=name,
        deployed_model=aiplatform_v1.DeployedModel(
            id="4242", model=f"{name.rpartition('/endpoints/')[0]}/models/scan@9", display_name="other",
            dedicated_resources=endpoint.deployed_models[0].dedicated_resources,
        ),
    ).result(timeout=60)  # fmt: skip
    client.undeploy_model(endpoint=name, deployed_model_id="4242").result(timeout=60)
    print(
        json.dumps(
            {
                "refused": refused,
                "errors": errors,
                "split": dict(endpoint.traffic_split),
                "labels": dict(endpoint.labels),
                "models": {each.id: each.status.available_replica_count for each in endpoint.deployed_models},
                "deployed": deployed.deployed_model.id,
            }
        )
    )


def jobs(address: str, name: str) -> dict[str, object]:
    """Return a custom job and the list of its run as the client reads them, then cancel the job twice."""
    transport = JobServiceRestTransport(
        host=address.removeprefix("http://"), url_scheme="http", credentials=AnonymousCredentials()
    )
    client = aiplatform_v1.JobServiceClient(transport=transport)
    job = client.get_custom_job(name=name)
    label = f"labels.gpu-ci-run={job.labels['gpu-ci-run']}"
    request = aiplatform_v1.ListCustomJobsRequest(parent=name.rpartition("/customJobs/")[0], filter=label)
    listed = [each.name for each in client.list_custom_jobs(request=request)]
    client.cancel_custom_job(name=name)
    client.cancel_custom_job(name=name)
    pool = job.job_spec.worker_pool_specs[0]
    return {
        "listed": listed,
        "states": [job.state.name, client.get_custom_job(name=name).state.name],
        "labels": dict(job.labels),
        "accelerator": pool.machine_spec.accelerator_type.name,
        "timeout": job.job_spec.scheduling.timeout.seconds,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
