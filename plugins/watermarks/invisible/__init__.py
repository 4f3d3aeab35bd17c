"""The watermark of invisible characters."""
