"""LoRA adapters: read, attached, merged into weights, batched, and composed into one."""
