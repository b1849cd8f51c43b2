"""A small web service on four providers, written as any team would write it."""

import pulumi
import pulumi_aws as aws
import pulumi_gcp as gcp
import pulumi_github as github
import pulumi_kubernetes as kubernetes

size = pulumi.Config().require_int("size")

network = gcp.compute.Network("web", auto_create_subnetworks=False)
subnetwork = gcp.compute.Subnetwork("web", network=network.id, ip_cidr_range="10.8.0.0/20")
bucket = gcp.storage.Bucket("assets", location="EU", uniform_bucket_level_access=True)
users = gcp.organizations.get_iam_policy(
    bindings=[{"role": "roles/compute.networkUser", "members": ["group:web@acme.com"]}]
)
gcp.compute.SubnetworkIAMPolicy("web", subnetwork=subnetwork.name, policy_data=users.policy_data)

trust = aws.iam.get_policy_document(
    statements=[
        aws.iam.GetPolicyDocumentStatementArgs(
            actions=["sts:AssumeRole"],
            principals=[
                aws.iam.GetPolicyDocumentStatementPrincipalArgs(type="Service", identifiers=["ec2.amazonaws.com"])
            ],
        )
    ]
)
role = aws.iam.Role("worker", assume_role_policy=trust.json)
vpc = aws.ec2.Vpc("main", cidr_block="10.0.0.0/16", tags={"owner": "web"})
zones = aws.get_availability_zones(state="available")
subnets = [
    aws.ec2.Subnet(f"main-{zone}", vpc_id=vpc.id, cidr_block=f"10.0.{index}.0/24", availability_zone=zone)
    for index, zone in enumerate(zones.names[:2])
]

# The sandbox knows only the shapes of these four types, and the program uses outputs that a cloud always returns.
zone = aws.route53.Zone("web", name="example.org")
certificate = aws.acm.Certificate("web", domain_name="web.example.org", validation_method="DNS")
proof = certificate.domain_validation_options[0]
record = aws.route53.Record(
    "web",
    zone_id=zone.zone_id,
    name=proof.resource_record_name,
    type=proof.resource_record_type,
    records=[proof.resource_record_value],
    ttl=60,
)
database = gcp.sql.DatabaseInstance(
    "web", database_version="POSTGRES_16", settings={"tier": "db-f1-micro"}, deletion_protection=False
)

namespace = kubernetes.core.v1.Namespace("web", metadata={"name": "web"})
labels = {"app": "web"}
deployment = kubernetes.apps.v1.Deployment(
    "web",
    metadata={"namespace": namespace.metadata["name"]},
    spec={
        "replicas": size,
        "selector": {"match_labels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": "registry.example/web:1.2.3"}]},
        },
    },
)

repository = github.Repository("web", visibility="private", has_issues=True)
token = github.ActionsSecret(
    "deploy-token",
    repository=repository.name,
    secret_name="DEPLOY_TOKEN",
    value=pulumi.Output.secret("not-a-real-token"),
)

print(f"building for {size} replicas")
pulumi.export("account", aws.get_caller_identity().account_id)
pulumi.export("database", database.connection_name.apply(lambda name: f"/cloudsql/{name}"))
pulumi.export("nameServer", zone.name_servers[0].apply(lambda name: name.removesuffix(".")))
pulumi.export("network", network.self_link)
pulumi.export("roleArn", role.arn)
pulumi.export("subnets", [subnet.availability_zone for subnet in subnets])
pulumi.export("replicas", deployment.spec.apply(lambda spec: spec.replicas))
pulumi.export("token", token.value)
