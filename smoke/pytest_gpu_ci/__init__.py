"""A pytest plugin for test suites that run on GPUs: what a test needs, what it may leave behind, and what did not run.

It needs pytest and nothing else; torch is imported when the first GPU test is about to run, or a test takes a seed.
"""
