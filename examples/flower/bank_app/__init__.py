"""A Flower app that tunes fedaudit-nano with LoRA on invented records, and is recorded."""
