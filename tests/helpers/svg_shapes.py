"""What a chart's SVG shows: its lines, its texts, its squares."""

import re
from xml.etree import ElementTree


def drawn_lines(svg):
    """Return color and points of each line of a plot, without axes and thresholds."""
    return [
        (re.search(r"stroke: var\(--(\w+)\)", style)[1], points(element))
        for element in ElementTree.fromstring(svg).iter("path")
        for style in [element.get("style", "")]
        if "fill: none; stroke: var(--" in style and "var(--ink)" not in style
    ]


def threshold_heights(svg):
    """Return the vertical positions of dashed lines."""
    return [
        points(element)[0][1]
        for element in ElementTree.fromstring(svg).iter("path")
        if "stroke-dasharray" in element.get("style", "")
    ]


def texts(svg):
    """Return text, x and y of all that is written, the picture's title apart."""
    return [
        (element.text, float(element.get("x")), float(element.get("y")))
        for element in ElementTree.fromstring(svg).iter("text")
    ]


def squares(svg):
    """Return how opaque each field of a heat map is, in order."""
    styles = [one.get("style", "") for one in ElementTree.fromstring(svg).iter("path")]
    return [
        float(found[1]) if (found := re.search(r"fill-opacity: ([\d.]+)", style)) else 1.0
        for style in styles
        if "fill: var(--heat)" in style
    ]


def points(element):
    """Return the points of a path."""
    numbers = re.findall(r"-?[\d.]+(?:e-?\d+)?", element.get("d"))
    return list(zip(map(float, numbers[::2]), map(float, numbers[1::2]), strict=True))
