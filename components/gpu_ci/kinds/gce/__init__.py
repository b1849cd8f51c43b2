"""The kind gce-runners: GPU runners on Compute Engine."""
