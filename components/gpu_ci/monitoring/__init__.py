"""Alerts and dashboards over the measurements of gpu-ci, as data: one source for every monitoring system."""
