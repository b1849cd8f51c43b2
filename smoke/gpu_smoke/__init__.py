"""The smoke check: it runs kernels on the GPUs of a machine and checks the results, so that only good GPUs take jobs.

The package is a command with subcommands (commands.py). A run starts worker processes that use the GPUs (workers/).
They measure (measure/), pure functions judge the numbers (judge/), and the results go into a receipt and reports
(reports/).
"""

__version__ = "0.1.0"
