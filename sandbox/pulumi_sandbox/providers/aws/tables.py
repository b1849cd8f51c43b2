"""Tables of pulumi-aws's resource names, ids, ARNs and replacing changes, each with its source."""

from __future__ import annotations

from pulumi_sandbox.providers.bridged import Naming

# Source: pulumi-aws v7, provider: the `Fields` of its resource overrides. All other types use SetAutonaming(255, "-").
NAMING = {
    "aws:backup/restoreTestingPlan:RestoreTestingPlan": Naming(separator="_"),
    "aws:cloudwatch/eventRule:EventRule": Naming(max_length=64),
    "aws:cloudwatch/eventTarget:EventTarget": Naming("targetId"),
    "aws:ec2/keyPair:KeyPair": Naming("keyName"),
    "aws:efs/fileSystem:FileSystem": Naming("creationToken"),
    "aws:eks/fargateProfile:FargateProfile": Naming("fargateProfileName"),
    "aws:eks/nodeGroup:NodeGroup": Naming("nodeGroupName"),
    "aws:elasticache/cluster:Cluster": Naming("clusterId", max_length=50, lower=True),
    "aws:elasticache/replicationGroup:ReplicationGroup": Naming("replicationGroupId", max_length=40, lower=True),
    "aws:elasticbeanstalk/environment:Environment": Naming(max_length=40),
    "aws:elasticsearch/domain:Domain": Naming("domainName", max_length=28, lower=True),
    "aws:iam/role:Role": Naming(max_length=64),
    "aws:lambda/function:Function": Naming(max_length=64),
    "aws:lambda/permission:Permission": Naming("statementId", max_length=100),
    "aws:mq/broker:Broker": Naming("brokerName", max_length=55),
    "aws:opensearch/domain:Domain": Naming("domainName"),
    "aws:rds/instance:Instance": Naming("identifier", separator=""),
    "aws:s3/bucket:Bucket": Naming("bucket", max_length=63, lower=True),
    "aws:s3/bucketObject:BucketObject": Naming("key", length=0),
    "aws:s3/bucketObjectv2:BucketObjectv2": Naming("key", length=0),
    "aws:sns/topic:Topic": Naming(max_length=80),
    "aws:sqs/queue:Queue": Naming(max_length=80),
    "aws:kms/alias:Alias": Naming(max_length=238),
}

# Ids that AWS generates: a prefix and 17 hexadecimal digits (docs.aws.amazon.com/AWSEC2/latest/UserGuide/
# resource-ids.html). Newer types have the same format.
ID_PREFIXES = {
    "aws:ec2/ami:Ami": "ami",
    "aws:ec2/capacityReservation:CapacityReservation": "cr",
    "aws:ec2/eip:Eip": "eipalloc",
    "aws:ec2/instance:Instance": "i",
    "aws:ec2/internetGateway:InternetGateway": "igw",
    "aws:ec2/launchTemplate:LaunchTemplate": "lt",
    "aws:ec2/natGateway:NatGateway": "nat",
    "aws:ec2/networkAcl:NetworkAcl": "acl",
    "aws:ec2/networkInterface:NetworkInterface": "eni",
    "aws:ec2/routeTable:RouteTable": "rtb",
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "rtbassoc",
    "aws:ec2/securityGroup:SecurityGroup": "sg",
    "aws:ec2/subnet:Subnet": "subnet",
    "aws:ec2/vpc:Vpc": "vpc",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "vpce",
    "aws:ebs/volume:Volume": "vol",
    "aws:efs/fileSystem:FileSystem": "fs",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "a",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": "sgr",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "sgr",
}

# Ids formed from inputs. Source: terraform-provider-aws, internal/service/*, SetId.
ID_FORMS = {
    "aws:autoscaling/tag:Tag": "{autoscalingGroupName},{tag[key]}",
    "aws:cloudwatch/logGroup:LogGroup": "{name}",
    "aws:ec2/placementGroup:PlacementGroup": "{name}",
    "aws:ec2/tag:Tag": "{resourceId},{key}",
    "aws:ecr/repository:Repository": "{name}",
    "aws:ecs/taskDefinition:TaskDefinition": "{family}",
    "aws:eks/accessEntry:AccessEntry": "{clusterName}:{principalArn}",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "{clusterName}#{principalArn}#{policyArn}",
    "aws:eks/addon:Addon": "{clusterName}:{addonName}",
    "aws:eks/cluster:Cluster": "{name}",
    "aws:eks/nodeGroup:NodeGroup": "{clusterName}:{nodeGroupName}",
    "aws:iam/instanceProfile:InstanceProfile": "{name}",
    "aws:iam/role:Role": "{name}",
    "aws:iam/rolePolicy:RolePolicy": "{role}:{name}",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "{role}/{policyArn}",
    "aws:iam/user:User": "{name}",
    "aws:lambda/function:Function": "{name}",
    "aws:s3/bucket:Bucket": "{bucket}",
    # It differs from the provider's id: two buckets may have objects with one key.
    "aws:s3/bucketObjectv2:BucketObjectv2": "{bucket}/{key}",
    "aws:sqs/queue:Queue": "https://sqs.{region}.amazonaws.com/{account}/{name}",
    "aws:ssm/parameter:Parameter": "{name}",
}

# The part of an ARN after `arn:aws:` (docs.aws.amazon.com/service-authorization/latest/reference).
ARNS = {
    "aws:cloudwatch/logGroup:LogGroup": "logs:{region}:{account}:log-group:{name}",
    "aws:ecr/repository:Repository": "ecr:{region}:{account}:repository/{name}",
    "aws:ecs/cluster:Cluster": "ecs:{region}:{account}:cluster/{name}",
    # The real one has the name of the cluster, too.
    "aws:ecs/service:Service": "ecs:{region}:{account}:service/{name}",
    "aws:ecs/taskDefinition:TaskDefinition": "ecs:{region}:{account}:task-definition/{family}:1",
    "aws:eks/cluster:Cluster": "eks:{region}:{account}:cluster/{name}",
    "aws:eks/nodeGroup:NodeGroup": "eks:{region}:{account}:nodegroup/{clusterName}/{nodeGroupName}/{uuid}",
    "aws:iam/instanceProfile:InstanceProfile": "iam::{account}:instance-profile{path}{name}",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": "iam::{account}:oidc-provider/{issuer}",
    "aws:iam/policy:Policy": "iam::{account}:policy{path}{name}",
    "aws:iam/role:Role": "iam::{account}:role{path}{name}",
    "aws:iam/user:User": "iam::{account}:user{path}{name}",
    "aws:imagebuilder/component:Component": "imagebuilder:{region}:{account}:component/{slug}/{version}/1",
    "aws:imagebuilder/distributionConfiguration:DistributionConfiguration": (
        "imagebuilder:{region}:{account}:distribution-configuration/{slug}"
    ),
    "aws:imagebuilder/imagePipeline:ImagePipeline": "imagebuilder:{region}:{account}:image-pipeline/{slug}",
    "aws:imagebuilder/imageRecipe:ImageRecipe": "imagebuilder:{region}:{account}:image-recipe/{slug}/{version}",
    "aws:imagebuilder/infrastructureConfiguration:InfrastructureConfiguration": (
        "imagebuilder:{region}:{account}:infrastructure-configuration/{slug}"
    ),
    "aws:imagebuilder/lifecyclePolicy:LifecyclePolicy": "imagebuilder:{region}:{account}:lifecycle-policy/{slug}",
    "aws:lambda/function:Function": "lambda:{region}:{account}:function:{name}",
    "aws:s3/bucket:Bucket": "s3:::{bucket}",
    "aws:sns/topic:Topic": "sns:{region}:{account}:{name}",
    "aws:sqs/queue:Queue": "sqs:{region}:{account}:{name}",
    "aws:ssm/parameter:Parameter": "ssm:{region}:{account}:parameter/{name}",
}

# Types whose create replaces an existing resource.
OVERWRITTEN = frozenset({"aws:s3/bucketObjectv2:BucketObjectv2"})

# Types whose id is their ARN.
ARN_IS_ID = frozenset(
    {
        "aws:ecs/cluster:Cluster",
        "aws:ecs/service:Service",
        "aws:iam/openIdConnectProvider:OpenIdConnectProvider",
        "aws:iam/policy:Policy",
        "aws:imagebuilder/component:Component",
        "aws:imagebuilder/distributionConfiguration:DistributionConfiguration",
        "aws:imagebuilder/imagePipeline:ImagePipeline",
        "aws:imagebuilder/imageRecipe:ImageRecipe",
        "aws:imagebuilder/infrastructureConfiguration:InfrastructureConfiguration",
        "aws:imagebuilder/lifecyclePolicy:LifecyclePolicy",
        "aws:sns/topic:Topic",
    }
)

# ForceNew of terraform-provider-aws, for types where it differs from CloudFormation's createOnlyProperties or where
# CloudFormation has no type. pulumi-aws bridges this provider, so it takes precedence. The differences, by file:
# - internal/service/eks/node_group.go (at 012e0a32): another launch template replaces the group.
# - internal/service/eks/cluster.go (at 00555dc5): an encryption key may be added to a cluster.
# - internal/service/ec2/ec2_placement_group.go (at 05e34de7): tags are changed in place.
# - internal/service/autoscaling/group_tag.go (at 050ac111): in CloudFormation, only the group has tags.
# - internal/service/ec2/ec2_tag.go: CloudFormation has no such type.
# - internal/service/iam/role_policy_attachment.go (at 04c79849): CloudFormation has no such type.
# - internal/service/{ecs/cluster,ecs/service,ecs/task_definition,logs/group}.go: a task definition never changes.
# In v7 a change of `region` replaces every type that has it.
REPLACES = {
    "aws:autoscaling/tag:Tag": ("autoscalingGroupName", "tag.key", "region"),
    "aws:ec2/placementGroup:PlacementGroup": ("name", "partitionCount", "spreadLevel", "strategy", "region"),
    "aws:ec2/tag:Tag": ("key", "resourceId", "region"),
    "aws:cloudwatch/logGroup:LogGroup": ("name", "region"),
    "aws:ecs/cluster:Cluster": ("name", "region"),
    "aws:ecs/service:Service": ("cluster", "launchType", "name", "region"),
    "aws:ecs/taskDefinition:TaskDefinition": (
        "containerDefinitions", "cpu", "executionRoleArn", "family", "memory", "networkMode", "requiresCompatibilities",
        "runtimePlatform", "taskRoleArn", "region",
    ),
    "aws:eks/cluster:Cluster": (
        "accessConfig.bootstrapClusterCreatorAdminPermissions", "bootstrapSelfManagedAddons",
        "kubernetesNetworkConfig.ipFamily", "kubernetesNetworkConfig.serviceIpv4Cidr", "name", "remoteNetworkConfig",
        "roleArn", "region",
    ),
    "aws:eks/nodeGroup:NodeGroup": (
        "amiType", "capacityType", "clusterName", "diskSize", "instanceTypes", "launchTemplate.id",
        "launchTemplate.name", "nodeGroupName", "nodeGroupNamePrefix", "nodeRoleArn", "remoteAccess", "subnetIds",
        "region",
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": ("role", "policyArn"),
}  # fmt: skip
