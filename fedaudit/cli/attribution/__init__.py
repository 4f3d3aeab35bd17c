"""fedaudit attribute and watermark, and their subcommands."""
