"""A pytest plugin for test suites on GPUs.

It checks what a test needs and what it leaves behind, and reports the tests that did not run. It requires only pytest.
torch is imported before the first GPU test, or for a test that uses `gpu_seed`.
"""
