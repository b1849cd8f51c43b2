"""Map properties of GKE clusters and node pools to fields of the Google API (types.py describes the form).

The renames are those of terraform-provider-google (commit e03b7622, google/services/container).
"""

from __future__ import annotations

from pulumi_sandbox.providers.gcp.mapping.target import PROVIDER_ONLY, Target

CLUSTER = "gcp:container/cluster:Cluster"
NODE_POOL = "gcp:container/nodePool:NodePool"

_CONTAINERD = {
    "privateRegistryAccessConfig.certificateAuthorityDomainConfigs": "certificateAuthorityDomainConfig",
    "registryHosts.hosts.cas": "ca",
    "registryHosts.hosts.clients": "client",
    "registryHosts.hosts.headers": "header",
    "registryHosts.hosts.headers.values": "value",
}
_NODE_CONFIG = {
    **{f"containerdConfig.{name}": target for name, target in _CONTAINERD.items()},
    "effectiveTaints": "",  # the provider copies them from `taints`
    "ephemeralStorageConfig": "",  # beta API only
    "gpudirectStrategy": "gpuDirectConfig.gpuDirectStrategy",
    "guestAccelerators": "accelerators",
    "guestAccelerators.count": "acceleratorCount",
    "guestAccelerators.type": "acceleratorType",
    "hostMaintenancePolicy": "",  # beta API only
    "linuxNodeConfig.hugepagesConfig": "hugepages",
    "loggingVariant": "loggingConfig.variantConfig.variant",
    "nodeImageConfigs": "nodeImageConfig",
    "resourceManagerTags": "resourceManagerTags.tags",
    "sandboxConfig.sandboxType": "",  # beta API only
    "windowsNodeConfig.osversion": "osVersion",
}
_POOL = {
    "ignoreNodeCountChanges": "",
    "maintenancePolicies": "maintenancePolicy",
    "maintenancePolicies.exclusionUntilEndOfSupports": "exclusionUntilEndOfSupport",
    "maxPodsPerNode": "maxPodsConstraint.maxPodsPerNode",
    "namePrefix": "",
    "networkConfig.additionalNodeNetworkConfigs.stackType": "",  # beta API only
    "networkConfig.additionalPodNetworkConfigs.maxPodsPerNode": "maxPodsPerNode.maxPodsPerNode",
    "networkConfig.podCidrOverprovisionConfig.disabled": "disable",
    "nodeConfig": "config",
    "nodeCount": "initialNodeCount",
    "nodeDrainConfigs": "nodeDrainConfig",
    "nodeLocations": "locations",
    **{f"nodeConfig.{name}": target for name, target in _NODE_CONFIG.items()},
}
_IN_PARENT = {"cluster": "", "location": "", "project": ""}
_PROVISIONING = "clusterAutoscaling.autoProvisioningDefaults"
_CLUSTER = {
    "addonsConfig.cloudrunConfig": "cloudRunConfig",
    "addonsConfig.istioConfig": "",  # beta API only
    "addonsConfig.kalmConfig": "",  # beta API only
    "addonsConfig.rayOperatorConfigs": "rayOperatorConfig",
    "allowNetAdmin": "autopilot.workloadPolicyConfig.allowNetAdmin",
    "autopilotClusterPolicyConfig": "autopilot.clusterPolicyConfig",
    "autopilotPrivilegedAdmissions": "autopilot.privilegedAdmissionConfig.allowlistPaths",
    "clusterAutoscaling": "autoscaling",
    "clusterAutoscaling.autoProvisioningDefaults": "autoprovisioningNodePoolDefaults",
    f"{_PROVISIONING}.diskSize": "diskSizeGb",
    "clusterAutoscaling.autoProvisioningLocations": "autoprovisioningLocations",
    "clusterAutoscaling.defaultComputeClassEnabled": "defaultComputeClassConfig.enabled",
    "clusterAutoscaling.enabled": "enableNodeAutoprovisioning",
    "clusterTelemetry": "",  # beta API only
    "datapathProvider": "networkConfig.datapathProvider",
    "dataplaneOptimizationMode": "networkConfig.dataplaneV2Config.scalabilityMode",
    "defaultMaxPodsPerNode": "defaultMaxPodsConstraint.maxPodsPerNode",
    "defaultSnatStatus": "networkConfig.defaultSnatStatus",
    "deletionProtection": "",
    "desiredEmulatedVersion": "",
    "disableL4LbFirewallReconciliation": "networkConfig.disableL4LbFirewallReconciliation",
    "dnsConfig": "networkConfig.dnsConfig",
    "enableAutopilot": "autopilot.enabled",
    "enableCiliumClusterwideNetworkPolicy": "networkConfig.enableCiliumClusterwideNetworkPolicy",
    "enableFqdnNetworkPolicy": "networkConfig.enableFqdnNetworkPolicy",
    "enableIntranodeVisibility": "networkConfig.enableIntraNodeVisibility",
    "enableL4IlbSubsetting": "networkConfig.enableL4ilbSubsetting",
    "enableLegacyAbac": "legacyAbac.enabled",
    "enableMultiNetworking": "networkConfig.enableMultiNetworking",
    "enableShieldedNodes": "shieldedNodes.enabled",
    "fleet.membershipId": "",  # a part of the membership, which the service sets
    "fleet.membershipLocation": "",
    "gatewayApiConfig": "networkConfig.gatewayApiConfig",
    "ignoreNodeCountChanges": "",
    "inTransitEncryptionConfig": "networkConfig.inTransitEncryptionConfig",
    "ipAllocationPolicy.podCidrOverprovisionConfig.disabled": "disable",
    "location": "",  # a part of the URL, and an output of the API
    "loggingConfig": "loggingConfig.componentConfig",
    # The provider takes these windows in forms of its own.
    "maintenancePolicy": "",
    "minMasterVersion": "initialClusterVersion",
    "monitoringConfig.enableComponents": "componentConfig.enableComponents",
    "monitoringConfig.managedPrometheus": "managedPrometheusConfig",
    "networkPerformanceConfig": "networkConfig.networkPerformanceConfig",
    "networkingMode": "",  # it becomes ipAllocationPolicy.useIpAliases
    "nodeLocations": "locations",
    "nodePoolAutoConfig.resourceManagerTags": "resourceManagerTags.tags",
    "nodePoolDefaults.nodeConfigDefaults.insecureKubeletReadonlyPortEnabled": "",  # a text here, a boolean in the API
    "nodePoolDefaults.nodeConfigDefaults.loggingVariant": "loggingConfig.variantConfig.variant",
    "nodePools.managedInstanceGroupUrls": "",
    "nodeVersion": "",
    "notificationConfig.pubsub.filter.eventTypes": "eventType",
    "podSecurityPolicyConfig": "",  # beta API only
    "privateIpv6GoogleAccess": "networkConfig.privateIpv6GoogleAccess",
    "project": "",
    "protectConfig": "",  # beta API only
    "removeDefaultNodePool": "",
    "resourceUsageExportConfig.enableResourceConsumptionMetering": "consumptionMeteringConfig.enabled",
    "serviceExternalIpsConfig": "networkConfig.serviceExternalIpsConfig",
    "skipNodePoolRefresh": "",
    "tpuConfig": "",  # beta API only
    "workloadAltsConfig": "",  # beta API only
}
_NESTED = {
    **{f"nodeConfig.{name}": target for name, target in _NODE_CONFIG.items()},
    **{f"nodePools.{name}": target for name, target in _POOL.items()},
    **{f"nodePoolDefaults.nodeConfigDefaults.containerdConfig.{name}": target for name, target in _CONTAINERD.items()},
}

TARGETS: dict[str, Target] = {
    NODE_POOL: Target(
        "container.v1",
        "NodePool",
        "projects.locations.clusters.nodePools",
        (),
        PROVIDER_ONLY | _IN_PARENT | _POOL,
    ),
    CLUSTER: Target("container.v1", "Cluster", "projects.locations.clusters", (), PROVIDER_ONLY | _CLUSTER | _NESTED),
}
