"""Loading models: checks of untrusted files, base weights, tokenizer, adapters."""
