"""Personal data that no one asks for: without prompts (SecureGate), and in ordinary use."""
