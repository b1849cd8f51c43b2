"""The manager's measurements, published as lines of the log and for Prometheus."""
