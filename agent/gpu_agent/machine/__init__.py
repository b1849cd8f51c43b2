"""Access to the machine: commands, users, processes, driver, GPUs, serial port and power."""
