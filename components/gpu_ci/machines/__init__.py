"""What pools of machines have in common, whatever the vendor: arguments, runner, smoke check, agent's configuration."""
