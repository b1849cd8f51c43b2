"""What a stack file says of pools and quotas, and what is wrong with it; needs no engine and no configuration."""
