"""How pages are made from templates: everything escaped, hidden characters spelled out."""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fedaudit.report.redaction import make_visible
from fedaudit.system.outputs import page_generator

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = "pages"
"""The folder, beside this package, of templates, style and script."""


def render_page(name: str, content: Mapping[str, Any]) -> str:
    """Return the page of a template, with the style and the script that all pages share.

    The page's policy lets it run this one script, named by its hash, and load nothing.
    """
    style, script = (_read(f"page.{suffix}") for suffix in ("css", "js"))
    # The browser hashes what stands between the tags, with the line ends that the template adds.
    digest = hashlib.sha256(f"\n{script}\n".encode()).digest()
    return (
        html_environment()
        .get_template(f"{name}.html.j2")
        .render(
            **content,
            generator=page_generator(name),
            style=_OurText(style),
            script=_OurText(script),
            script_hash=base64.b64encode(digest).decode(),
        )
    )


@cache
def html_environment() -> "Environment":
    """Return the Jinja environment, which escapes all texts and refuses undefined names."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("fedaudit.report", FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


class _OurText(str):
    """A text of ours, which goes into the page unescaped."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def _read(name: str) -> str:
    path = files("fedaudit.report").joinpath(FOLDER, name)
    return path.read_text(encoding="utf-8").rstrip("\n")


def _visible(value: Any) -> Any:
    """Spell out hidden characters in a value that a template prints; autoescape does the rest."""
    markup = hasattr(value, "__html__")  # a macro's output or our own script
    return make_visible(value) if isinstance(value, str) and not markup else value
