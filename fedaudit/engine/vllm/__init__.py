"""A vLLM server that is started for one audit and serves its base and LoRA adapters."""
