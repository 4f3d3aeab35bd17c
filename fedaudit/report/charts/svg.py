"""Figures of matplotlib as SVG that stands inside a page: its colors, and no more than shapes."""

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from hashlib import sha256
from importlib import import_module
from io import StringIO
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from fedaudit.report.redaction import make_visible

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THEME = {
    "ink": "#1c1c1c",
    "muted": "#555555",
    "line": "#cccccc",
    "bad": "#b3261e",
    "good": "#1e7d34",
    "open": "#8a5800",
    "bar": "#9aa5b1",
    "blue": "#1f5fa8",
    "violet": "#6b3fa0",
    "gray": "#4a4a4a",
    "heat": "#d9706a",
}
"""The page's colors in light mode. In the page each is replaced by the CSS variable of that name,
so that it changes in dark mode."""

FONT_SIZE = 13
MIN_SCALE = 0.8
"""How far a picture shrinks on a narrow screen before it scrolls: text stays 10 pixels high."""

_HOME = "MPLCONFIGDIR"
"""The folders in which matplotlib keeps its settings and its list of fonts."""

_VARIABLES = {color: f"var(--{name})" for name, color in THEME.items()}
_COLOR = re.compile("|".join(_VARIABLES))
_FAMILY = re.compile(r"font-family: [^;]*; ?")
_REFERENCE = re.compile(r"^#(.+)$|url\(#([^)]+)\)")


@contextmanager
def new_axes(width: float, height: float) -> Iterator[tuple["Figure", "Axes"]]:
    """Yield a figure and its axes of this size in pixels; labels outside the axes add to it.

    Matplotlib's default settings apply whatever settings files exist; names are never read as
    formulas.
    """
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_settings())
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        yield figure, figure.add_axes((0.0, 0.0, 1.0, 1.0))


def _matplotlib() -> ModuleType:
    """Import matplotlib in an empty folder, which also serves as its home during the import.

    Otherwise matplotlib would read settings from the current folder, which is not trusted, and
    create folders in the user's home, where fedaudit writes nothing.
    """
    if "matplotlib" not in sys.modules:
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        before = os.environ.get(_HOME)
        with TemporaryDirectory(prefix="fedaudit-") as folder, chdir(folder):
            os.environ[_HOME] = folder
            try:
                for name in ("matplotlib.figure", "matplotlib.backends.backend_svg"):
                    import_module(name)
            finally:
                os.environ.pop(_HOME)
                if before is not None:
                    os.environ[_HOME] = before
    return import_module("matplotlib")


def _settings() -> dict[Any, Any]:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "fedaudit",
        "text.parse_math": False,
        "font.size": FONT_SIZE,
        "axes.spines.top": False,
        "axes.spines.right": False,
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), THEME["ink"]),
        **dict.fromkeys(("xtick.color", "ytick.color"), THEME["ink"]),
    }


def inline_svg(figure: "Figure", title: str) -> str:
    """Return a figure as an `<svg>` element with a title, as wide as its content.

    Text stays text, and identifiers are unique to the picture. Style sheets, metadata and
    namespaces are left out, since a page needs none of them.
    """
    file = StringIO()
    with warnings.catch_warnings():
        # The browser has fonts for characters that the font used here, only to measure, may lack.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        figure.savefig(
            file, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None}
        )
    root = ElementTree.fromstring(file.getvalue())
    _strip(root)
    drawing = sha256(f"{title}\n{file.getvalue()}".encode("utf-8", "surrogatepass")).hexdigest()
    _rename_ids(root, f"f{drawing[:8]}-")
    return ElementTree.tostring(_add_svg_title(root, title), encoding="unicode")


def _strip(parent: "Element") -> None:
    """Remove metadata, style sheets and namespaces; put the page's font and colors into styles."""
    for child in list(parent):
        if child.tag.rpartition("}")[2] in ("metadata", "style"):
            parent.remove(child)
        else:
            _strip(child)
    parent.tag = parent.tag.rpartition("}")[2]
    attributes = {key.rpartition("}")[2]: value for key, value in parent.attrib.items()}
    parent.attrib.clear()
    parent.attrib.update(attributes)
    if "style" in attributes:
        style = _COLOR.sub(lambda match: _VARIABLES[match[0]], attributes["style"])
        parent.set("style", _FAMILY.sub("", style))


def _rename_ids(root: "Element", prefix: str) -> None:
    """Prefix the identifiers that are referred to, and remove the others."""
    used = {
        name
        for element in root.iter()
        for value in element.attrib.values()
        for match in _REFERENCE.finditer(value)
        for name in match.groups()
        if name
    }
    for element in root.iter():
        name = element.attrib.pop("id", None)
        for key, value in element.attrib.items():
            element.set(key, _REFERENCE.sub(lambda match: _prefixed(match, prefix), value))
        if name in used:
            element.set("id", f"{prefix}{name}")


def _prefixed(match: re.Match[str], prefix: str) -> str:
    return f"#{prefix}{match[1]}" if match[1] else f"url(#{prefix}{match[2]})"


def _add_svg_title(root: "Element", title: str) -> "Element":
    """Return the picture with its title and its minimum width."""
    box = root.attrib["viewBox"]
    width = float(box.split()[2])
    title_element = ElementTree.Element("title")
    title_element.text = make_visible(title)
    root.insert(0, title_element)
    root.attrib.clear()
    root.attrib.update(
        {
            "class": "plot",
            "role": "img",
            "viewBox": box,
            "style": f"min-width: {MIN_SCALE * width:.0f}px; max-width: {width:.0f}px",
        }
    )
    return root
