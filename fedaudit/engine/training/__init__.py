"""Fine-tuning of adapters, and gradients of losses."""
