"""The watermark of Cui et al.: documents on an entity that nobody else knows of."""
