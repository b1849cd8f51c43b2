"""The provider of aws.SmokeGate: the gate of Compute Engine (gcp/gate) with an API that starts EC2 instances."""
