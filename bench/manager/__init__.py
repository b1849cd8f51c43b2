"""Simulates weeks of GPU jobs with limited spot capacity, and compares gpu-ci's runner manager with other managers.

A history is one week of jobs with the availability of machines. A policy is one manager with its settings. Every policy
runs on the same histories. The world (world.py) is the simulated cloud and GitHub.
"""
