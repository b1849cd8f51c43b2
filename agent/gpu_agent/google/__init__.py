"""Google Compute Engine: metadata, Secret Manager and Cloud Logging."""
