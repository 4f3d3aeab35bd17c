"""fedaudit reproduce: a paper's whole study."""


def reproduce() -> int:
    """Reproduce."""
    return 0
