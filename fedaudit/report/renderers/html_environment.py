"""How pages are made from templates: everything escaped, hidden characters spelled out."""

from typing import TYPE_CHECKING, Any

from fedaudit.report.redaction import make_visible

if TYPE_CHECKING:
    from jinja2 import Environment


def html_environment() -> "Environment":
    """Return a Jinja environment that escapes all texts and refuses undefined names."""
    from jinja2 import Environment, StrictUndefined

    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _visible(value: Any) -> Any:
    """Spell out hidden characters in a value that a template prints; autoescape does the rest."""
    markup = hasattr(value, "__html__")  # a macro's output or our own script
    return make_visible(value) if isinstance(value, str) and not markup else value
