"""A hook of the site's build: it replaces links to files outside the site by the files' names."""

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)#\s]+)[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page in which a link to a file of the repository names that file."""
    return OUTSIDE.sub(r"\1 (`\2` in the repository)", markdown)
