"""Pages as HTML that can be mailed and open anywhere, light or dark; their style for pictures."""

from collections.abc import Mapping, Sequence
from html import escape
from string import Template
from typing import Final

from tgpu.drawing.palette import colours

_LIGHT: Final = {
    "ink": "#1c2430",
    "soft": "#5d6876",
    "line": "#d8dee6",
    "page": "#ffffff",
    "card": "#f4f6f9",
    "a": "#2563a8",
    "b": "#c2571a",
    "bad": "#c62828",
    **colours(dark=False),
}
_DARK: Final = {
    "ink": "#e4e8ee",
    "soft": "#a3adbb",
    "line": "#333c48",
    "page": "#14181e",
    "card": "#1d232b",
    "a": "#6ea8e6",
    "b": "#eb955c",
    "bad": "#ff6b6b",
    **colours(dark=True),
}
# Families by name as well: whoever makes pictures may not know what system-ui is.
_FONT: Final = 'system-ui, "Helvetica Neue", Arial, "Liberation Sans", "DejaVu Sans", sans-serif'
_PLOTS: Final = Template(
    """
text { font-family: $font; font-size: 11px; fill: $soft; }
.name { text-anchor: end; } .tick { text-anchor: middle; }
.grid { stroke: $line; fill: none; }
polyline { fill: none; stroke-width: 1.8; }
.a { stroke: $a; } .b { stroke: $b; } .bar { fill: $a; } .busy { fill: $a; } .empty { fill: $card; }
.waits { stroke: $b; opacity: .55; } .runs { stroke: $a; } .bad { fill: $bad; }
.area { stroke: $page; stroke-width: .4; } .piece { stroke: $page; stroke-width: .5; }
.title { font-size: 15px; font-weight: bold; fill: $ink; }
"""
    + " ".join(f".{name} {{ fill: ${name}; }}" for name in colours(dark=False))
)
_PAGE: Final = Template(
    """
body { font: 15px/1.5 $font; color: $ink; background: $page; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; } p { color: $soft; }
a { color: $a; }
pre { background: $card; border-radius: .4rem; padding: .6rem .9rem; overflow-x: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
td, th { padding: .2rem .9rem .2rem 0; font-size: .92rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid $line; font-variant-numeric: tabular-nums; }
td:first-child, th:first-child, .w { text-align: left; }
svg { width: 100%; height: auto; display: block; }
.key-a { color: $a; } .key-b { color: $b; } .key-bad { color: $bad; }
.cards { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; padding: 0; list-style: none; }
.cards li { background: $card; border-radius: .4rem; padding: .5rem .9rem; min-width: 7rem; }
.cards b { display: block; font-size: 1.25rem; } .cards span { color: $soft; font-size: .85rem; }
.keys { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; list-style: none;
  color: $soft; font-size: .9rem; }
.keys svg { display: inline-block; width: .8em; height: .8em; margin-right: .4em; }
"""
)


def html_page(title: str, parts: Sequence[str]) -> str:
    """`parts` are HTML already."""
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{_style()}</style></head><body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )


def picture_style() -> str:
    """The style of plots that stand alone, on white."""
    return _PLOTS.substitute(_LIGHT, font=_FONT)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """The first `words` columns are words, the rest numbers."""
    titles = "".join(_cells("th", head, words))
    lines = "".join(f"<tr>{''.join(_cells('td', row, words))}</tr>" for row in rows)
    return f"<div class='wide'><table><tr>{titles}</tr>{lines}</table></div>"


def _cells(tag: str, texts: Sequence[str], words: int) -> list[str]:
    return [
        f"<{tag}{' class=w' if 0 < number < words else ''}>{escape(text)}</{tag}>"
        for number, text in enumerate(texts)
    ]


def cards(facts: Sequence[tuple[str, str]]) -> str:
    """Numbers to see first: what, and how much."""
    items = "".join(
        f"<li><b>{escape(much)}</b><span>{escape(what)}</span></li>" for what, much in facts
    )
    return f"<ul class='cards'>{items}</ul>"


def keys(names: Sequence[tuple[str, str]]) -> str:
    """What the colours mean: class and name."""
    items = "".join(
        f"<li><svg viewBox='0 0 10 10' aria-hidden='true'><rect class='area {css}' width='10' "
        f"height='10'/></svg>{escape(name)}</li>"
        for css, name in names
    )
    return f"<ul class='keys'>{items}</ul>"


def _style() -> str:
    names = {name: f"var(--{name})" for name in _LIGHT}
    rules = _PAGE.substitute(names, font=_FONT) + _PLOTS.substitute(names, font=_FONT)
    return (
        f":root {{ color-scheme: light dark; {_variables(_LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(_DARK)} }} }}\n{rules}"
    )


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
