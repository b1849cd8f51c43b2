"""The machine itself: commands, users, processes, driver, GPUs, serial port and power."""
