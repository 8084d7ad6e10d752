"""Plots as PNG files. Needs the extra `report`: one small library, no browser."""

from importlib import import_module
from pathlib import Path
from typing import Final

from tgpu.drawing.page import picture_style

HOW_TO_INSTALL: Final = "pip install 'tgpu[report]'"
_ZOOM: Final = 2  # sharp on the screens of today, and on paper
_FONTS: Final = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts")


class NoLibrary(Exception):
    """The extra is not installed."""


def png(svg: str) -> bytes:
    """A plot of ours that is framed, on white. Raises NoLibrary."""
    try:
        library = import_module("resvg_py")
    except ImportError as error:
        raise NoLibrary from error
    made = library.svg_to_bytes(
        svg_string=svg, style_sheet=picture_style(), zoom=_ZOOM, background="#ffffff"
    )
    return bytes(made)


def has_fonts() -> bool:
    """Without any on the machine, pictures have no text: it says so, rather than nothing."""
    folders = (Path(name).expanduser() for name in _FONTS)
    return any(
        path.suffix.lower() in (".ttf", ".otf", ".ttc", ".pfb")
        for folder in folders
        if folder.is_dir()
        for path in folder.rglob("*")
    )
