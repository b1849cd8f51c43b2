"""The kind rented-runners: GPU runners on VMs of a vendor that rents out GPUs."""

from ...pool_kind import PoolKind

KIND = PoolKind(
    name="rented-runners",
    resource_type="gpu-ci:rented:RentedRunnerPool",
    package=__package__,
    example={
        "vendor": "jarvislabs",
        "account": "user-17",
        "machineType": "1xH100",
        "zones": ["IN2", "IN1"],
        "max": 2,
        "mailboxRegion": "us-central1",
        "apiKey": "projects/acme-ci/secrets/jarvislabs-api-key",
        "sshKey": "projects/acme-ci/secrets/jarvislabs-ssh-key",
    },
    entry_name="h100",
)
