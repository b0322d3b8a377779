"""Small figures as SVG, for notebooks: no library, readable on light and dark pages, with a text for screen readers."""

from collections.abc import Sequence
from html import escape

Point = tuple[float, float]


def svg_figure(parts: Sequence[str], *, width: float, height: float, title: str, description: str) -> str:
    """An SVG element of that many pixels; `title` and `description` are for readers who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'style="max-width: 100%; height: auto; display: block" font-family="sans-serif" font-size="11" '
        f'fill="currentColor"><title>{escape(title)}</title><desc>{escape(description)}</desc>{"".join(parts)}</svg>'
    )


def svg_text(at: Point, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    """A line of text whose `start`, `middle` or `end` is at a point."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def svg_line(points: Sequence[Point], *, colour: str = "currentColor", width: float = 1, dashes: str = "") -> str:
    """A line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def svg_area(points: Sequence[Point], *, colour: str) -> str:
    """A filled area."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polygon points="{path}" fill="{colour}"/>'


def svg_dot(at: Point, *, colour: str) -> str:
    """A dot."""
    return f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3" fill="{colour}"/>'
