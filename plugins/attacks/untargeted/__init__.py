"""Personal data that nobody asks for: without prompts (SecureGate), and in ordinary use."""
