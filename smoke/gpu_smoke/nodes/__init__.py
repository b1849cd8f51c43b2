"""The command `gpu-smoke prove-nodes`: a controller that checks each node of a pool before pods of jobs may use it."""
