// A pool of GPU runners in a network of its own. `pulumi package add` generated the SDK.
import * as pulumi from "@pulumi/pulumi";
import * as gpuCi from "@pulumi/gpu-ci";

const project = new pulumi.Config().require("project");

const network = new gpuCi.gcp.RunnerNetwork("ci", {
  project,
  region: "us-central1",
  ipRange: "10.10.0.0/20",
});
const pool = new gpuCi.gcp.RunnerPool("l4", {
  project,
  subnetwork: network.subnetwork,
  machineType: "g2-standard-8",
  zones: ["us-central1-a", "us-central1-b"],
  market: "spot",
  max: 2,
});

export const verdict = pool.verdict;
export const template = pool.template;
