"""Han characters, which Chinese is written in: there are no spaces between its words."""

import re

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""All of them, for a character class."""
_HAN = re.compile(f"[{HAN}]")


def has_han(text: str) -> bool:
    """Tell whether a text has a Han character."""
    return _HAN.search(text) is not None
