"""GPUs: discovery of a machine's GPUs, and their utilization, as in condor_gpu_discovery and condor_gpu_utilization."""
