"""The watermark of Cui et al.: documents on an entity that no one else knows of."""
