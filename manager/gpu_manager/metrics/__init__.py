"""What the manager measures, and the two forms in which it is published: lines of the log, and Prometheus."""
