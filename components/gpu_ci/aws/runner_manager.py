"""The component RunnerManager: runs the runner manager on Amazon ECS, with the permissions that it needs."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_aws as aws
from gpu_common.aws_permissions import MANAGER_POLICY, MANAGER_TAG
from pydantic import Field, StringConstraints

from ..args import Args, ComponentArgs, Input, PlainInput, StrictBool
from ..component import Component
from ..labels import merge
from ..mailbox.boot import state_key
from ..naming import PATTERN
from ..runner_manager import ManagerChoices
from .resource_names import BucketName, Region, SubnetId, Tags, partition
from .service_role import service_role

_LOG_DAYS = 30
_CONTAINER = "manager"
_EXECUTION = {"pull": "service-role/AmazonECSTaskExecutionRolePolicy"}


class RunnerManagerArgs(ManagerChoices, ComponentArgs):
    """The arguments of a runner manager on AWS."""

    WIRING: ClassVar[frozenset[str]] = frozenset(
        {"tags", "manager", "configuration", "app_key", "mailbox_bucket", "mailbox_region"}
    )

    region: Region = Field(description="the region where the manager runs, such as us-east-1")
    subnets: list[SubnetId] = Field(
        min_length=1, max_length=16, description="the subnets of the manager, in one VPC, with a route to the internet"
    )
    assign_public_ip: StrictBool = Field(
        default=False,
        description="whether the manager gets a public address, which it needs in a subnet without a NAT gateway; it "
        "accepts no incoming connection",
    )
    tags: Tags = Field(default={}, description="tags of every resource that supports tags")
    manager: Annotated[str, StringConstraints(pattern=f"^{PATTERN}$")] = Field(
        description="the name of the manager, as in its configuration"
    )
    configuration: PlainInput[Annotated[str, Field(min_length=2)]] = Field(
        description="the configuration of the manager in JSON, as in the stack's output `manager`; it contains no "
        "secrets"
    )
    app_key: Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:secretsmanager:")] = Field(
        description="the ARN of the secret in AWS Secrets Manager with the private key of the manager's GitHub App"
    )
    mailbox_bucket: Input[BucketName] = Field(
        description="the bucket of the pools' mailbox, in which the manager stores its state too"
    )
    mailbox_region: Region = Field(description="the region of this bucket")


class RunnerManager(Component):
    """The runner manager on Amazon ECS. It starts a machine for each queued job, and terminates it after the job.

    Creates: an ECS cluster with a Fargate service, a security group without incoming connections, and a log group that
    keeps lines for 30 days. The manager's configuration, as an object of the mailbox. A role that pulls the image, and
    the manager's role, with the policy `gpu-ci-manager` of `bootstrap/` and a tag with the manager's name. By this tag,
    the policy allows changes of the manager's own machines and objects only.
    Costs: 0.25 vCPU and 0.5 GiB of each instance for every second, even without jobs, and the log.
    Does not: put the App's key into state, environment variables or arguments. The manager reads it with its role. It
    creates no network: the subnets need a route to GitHub and AWS.
    Replaces on change of: everything but the roles, for region. A new image or configuration starts a new process. It
    acts only after the previous manager has released its lease.
    """

    TYPE: ClassVar[str] = "gpu-ci:aws:RunnerManager"
    ARGS: ClassVar[type[Args]] = RunnerManagerArgs
    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {"configuration": ("*",)}
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "image": f"111122223333.dkr.ecr.us-east-1.amazonaws.com/runner-manager@sha256:{'0123456789abcdef' * 4}",
        "region": "us-east-1",
        "subnets": ["subnet-0a1b2c3d4e5f60001", "subnet-0a1b2c3d4e5f60002"],
    }

    state_object: pulumi.Output[str]
    """Location of the manager's state, for the option --state of `gpu-ci manager status` and `gpu-ci explain`."""
    task_role_arn: pulumi.Output[str]
    """ARN of the manager's role."""
    service: pulumi.Output[str]
    """ARN of the ECS service."""

    def __init__(self, name: str, args: RunnerManagerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self._name, self._args = name, args
        self._tags = merge(args.tags, {"gpu-ci-pool": name})
        configuration = aws.s3.BucketObjectv2(
            f"{name}-configuration",
            bucket=args.mailbox_bucket,
            region=args.mailbox_region,
            key=state_key(args.manager, "configuration.json"),
            content=args.configuration,
            content_type="application/json",
            tags=self._tags,
            opts=self.child(),
        )
        self.state_object = self._address(state_key(args.manager, "state.json"))
        cluster = aws.ecs.Cluster(f"{name}-cluster", region=args.region, tags=self._tags, opts=self.child())
        role, attached = self._task_role()
        task = self._task(self._address(configuration.key), role)
        group, egress = self._security_group()
        service = aws.ecs.Service(
            f"{name}-service",
            region=args.region,
            cluster=cluster.arn,
            task_definition=task.arn,
            desired_count=args.instances,
            launch_type="FARGATE",
            network_configuration={
                "subnets": args.subnets,
                "security_groups": [group.id],
                "assign_public_ip": args.assign_public_ip,
            },
            # The new process waits for the lease of the previous one, which ECS stops afterwards.
            deployment_minimum_healthy_percent=100,
            deployment_maximum_percent=200,
            deployment_circuit_breaker={"enable": True, "rollback": True},
            wait_for_steady_state=True,
            propagate_tags="SERVICE",
            tags=self._tags,
            opts=self.child(depends_on=[attached, egress]),
        )
        self.task_role_arn = role.arn
        self.service = service.arn
        self.register()

    def _task_role(self) -> tuple[aws.iam.Role, pulumi.Resource]:
        """Create the manager's role. Its tag says which machines and objects are its own."""
        args = self._args
        account = aws.get_caller_identity_output(opts=pulumi.InvokeOptions(parent=self)).account_id
        tags = {**self._tags, MANAGER_TAG: args.manager}
        role, _ = service_role(
            f"{self._name}-task", "ecs-tasks", f"GPU runner manager {args.manager}", {}, args.region, tags, self.child()
        )
        policy = account.apply(lambda known: f"arn:{partition(args.region)}:iam::{known}:policy/{MANAGER_POLICY}")
        attached = aws.iam.RolePolicyAttachment(
            f"{self._name}-task-may-manage", role=role.name, policy_arn=policy, opts=self.child()
        )
        return role, attached

    def _security_group(self) -> tuple[aws.ec2.SecurityGroup, pulumi.Resource]:
        args = self._args
        subnet = aws.ec2.get_subnet_output(
            id=args.subnets[0], region=args.region, opts=pulumi.InvokeOptions(parent=self)
        )
        group = aws.ec2.SecurityGroup(
            f"{self._name}-security-group",
            description=f"GPU runner manager {args.manager}",
            vpc_id=subnet.vpc_id,
            region=args.region,
            tags=self._tags,
            opts=self.child(),
        )
        egress = aws.vpc.SecurityGroupEgressRule(
            f"{self._name}-egress",
            security_group_id=group.id,
            cidr_ipv4="0.0.0.0/0",
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            region=args.region,
            tags=self._tags,
            opts=self.child(),
        )
        return group, egress

    def _task(self, configuration: pulumi.Output[str], role: aws.iam.Role) -> aws.ecs.TaskDefinition:
        args, name = self._args, self._name
        log = aws.cloudwatch.LogGroup(
            f"{name}-log", region=args.region, retention_in_days=_LOG_DAYS, tags=self._tags, opts=self.child()
        )
        execution, _ = service_role(
            f"{name}-execution", "ecs-tasks", f"start of the GPU runner manager {args.manager}", _EXECUTION,
            args.region, self._tags, self.child(),
        )  # fmt: skip
        containers = pulumi.Output.all(configuration, self.state_object, log.name, args.configuration).apply(
            lambda known: json.dumps([self._container(*known)], sort_keys=True)
        )
        return aws.ecs.TaskDefinition(
            f"{name}-task",
            region=args.region,
            family=f"gpu-{args.manager}",
            requires_compatibilities=["FARGATE"],
            network_mode="awsvpc",
            cpu="256",
            memory="512",
            runtime_platform={"operating_system_family": "LINUX", "cpu_architecture": "X86_64"},
            execution_role_arn=execution.arn,
            task_role_arn=role.arn,
            container_definitions=containers,
            tags=self._tags,
            opts=self.child(),
        )

    def _container(self, configuration: str, state: str, log: str, content: str) -> dict[str, Any]:
        """Return the definition of the container (docs.aws.amazon.com/AmazonECS/latest/APIReference)."""
        args = self._args
        return {
            "name": _CONTAINER,
            "image": args.image,
            "essential": True,
            "command": [
                "manager", "run", "--json", "--app-key", args.app_key, "--config", configuration, "--state", state,
            ],
            "environment": [{"name": "AWS_DEFAULT_REGION", "value": args.region}],
            # The manager reads its configuration when it starts, so another one needs another process.
            "dockerLabels": {"gpu-ci-configuration": hashlib.sha256(content.encode()).hexdigest()},
            "readonlyRootFilesystem": True,
            "linuxParameters": {"initProcessEnabled": True},
            "logConfiguration": {
                "logDriver": "awslogs",
                "options": {"awslogs-group": log, "awslogs-region": args.region, "awslogs-stream-prefix": _CONTAINER},
            },
        }  # fmt: skip

    def _address(self, key: pulumi.Input[str]) -> pulumi.Output[str]:
        return pulumi.Output.concat("s3://", self._args.mailbox_bucket, "/", key)
