"""Simulates weeks of GPU jobs with limited spot capacity, and compares gpu-ci's runner manager with other managers."""
