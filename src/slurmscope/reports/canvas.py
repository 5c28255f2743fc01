# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What charts are drawn on: elements of SVG by their meaning, coloured by a page's CSS or on the spot."""

from __future__ import annotations

from datetime import tzinfo
from html import escape
from math import ceil

from slurmscope.reports.axis import DAY, cut, moments, width_of
from slurmscope.words import Say, dated, english, offset_words, printable

SIZE = 11.0  # of words
LABEL = 13.0  # height of a level's name
COLOURS = ("#0072b2", "#c77700", "#00704f", "#a3487b", "#d55e00", "#5b646c")
_DASHES = ("", "6 3", "2 2", "9 3 2 3", "4 2", "12 4")
SHADES = 5
"""Of a heat map: one hue, from hardly to full."""
_OPACITIES = (0.1, 0.3, 0.52, 0.76, 1)
_HATCH = 6  # from one line to the next
_THIN = 3.0
_SWATCH = 22.0
_ROW = 15.0
_FONT = 'font-family="Libertinus Serif, DejaVu Sans Mono, serif" font-size="12"'
_STYLES = {
    "axis": 'stroke="#e2e4e0" stroke-width="1"',
    "base": 'stroke="#9aa4ad" stroke-width="1"',
    "ask": 'stroke="#1d2226" stroke-width="1.1" stroke-dasharray="5 4"',
    "lead": 'stroke="#9aa4ad" stroke-width="0.8"',
    "none": 'stroke="#9aa4ad" stroke-width="1.4" stroke-dasharray="2 3"',
    "hatch": 'fill="none" stroke="#ffffff" stroke-width="1.3"',
    "area": f'fill="{COLOURS[0]}" fill-opacity="0.16"',
    "ink": 'fill="#1d2226"',
    "soft": 'fill="#4c555c"',
    **{
        f"l l{at}": f'fill="none" stroke="{colour}" stroke-width="1.6" stroke-linejoin="round"'
        + (f' stroke-dasharray="{dash}"' if dash else "")
        for at, (colour, dash) in enumerate(zip(COLOURS, _DASHES, strict=True))
    },
    "gap": 'fill="none" stroke="#9aa4ad" stroke-width="1"',
    **{f"h h{at}": f'fill="{COLOURS[0]}" fill-opacity="{share}"' for at, share in enumerate(_OPACITIES)},
    **{f"p p{at}": f'fill="{colour}"' for at, colour in enumerate(COLOURS)},
}


def line_class(at: int) -> str:
    return f"l l{at % len(COLOURS)}"


def hatched(at: int, x: float, y: float, width: float, height: float) -> str:
    """Lines across what is the second part of a bar, the other way across the third, and both across the fourth.

    They are drawn one by one: a pattern of SVG needs a name, and a page has many charts. In what is too thin for them
    they would be dots.
    """
    if min(width, height) < _THIN:
        return ""
    right, bottom = x + width, y + height
    lines = []
    if at % 4 in (1, 3):
        for level in range(ceil((x + y) / _HATCH), ceil((right + bottom) / _HATCH)):
            first, last = max(x, level * _HATCH - bottom), min(right, level * _HATCH - y)
            lines.append(f"M{first:.1f} {level * _HATCH - first:.1f} l{last - first:.1f} {first - last:.1f}")
    if at % 4 in (2, 3):
        for level in range(ceil((x - bottom) / _HATCH), ceil((right - y) / _HATCH)):
            first, last = max(x, level * _HATCH + y), min(right, level * _HATCH + bottom)
            lines.append(f"M{first:.1f} {first - level * _HATCH:.1f} l{last - first:.1f} {last - first:.1f}")
    return " ".join(lines)


def _drawn_only(words: str) -> str:
    """Browsers of text pass over it. What must be escaped is not worth being told in two ways."""
    escaped = escape(words)
    return f"<![CDATA[{words}]]>" if words == escaped else escaped


class Canvas:
    """Keeps what is drawn. Every text is escaped and cut to its room here, and nowhere else."""

    def __init__(self, width: float, *, styled: bool, live: bool = False, say: Say = english) -> None:
        """`live`: what a script may draw anew is in groups, and what it is drawn from can be put beside it."""
        self.width = width
        self.styled = styled
        self.live = live
        self.say = say
        self._parts: list[str] = []

    def _as(self, name: str) -> str:
        return _STYLES[name] if self.styled else f'class="{name}"'

    def line(self, name: str, x1: float, y1: float, x2: float, y2: float) -> None:
        self._parts.append(f'<line {self._as(name)} x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def begin(self, name: str) -> None:
        if self.live:
            self._parts.append(f'<g class="{name}">')

    def end(self) -> None:
        if self.live:
            self._parts.append("</g>")

    def path(self, name: str, points: str) -> None:
        self._parts.append(f'<path {self._as(name)} d="{points}"/>')

    def part(self, at: int, x: float, y: float, width: float, height: float, title: str = "") -> None:
        """One part of a bar; those that are not the first are hatched, so that they differ without colour too."""
        told = f"<title>{escape(printable(title))}</title>" if title and not self.styled else ""
        place = f'x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.2f}" height="{max(0.0, height):.2f}"'
        name = self._as(f"p p{at % len(COLOURS)}")
        self._parts.append(f"<rect {name} {place}>{told}</rect>" if told else f"<rect {name} {place}/>")
        if lines := hatched(at, x, y, width, height):
            self.path("hatch", lines)

    def open_group(self, title: str) -> None:
        """What is drawn until it is closed is told as one thing, by these words."""
        if not self.styled:
            self._parts.append(f'<g role="img"><title>{escape(printable(title))}</title>')

    def close_group(self) -> None:
        if not self.styled:
            self._parts.append("</g>")

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        anchor: str = "start",
        room: float,
        name: str = "soft",
        link: str = "",
        behind: str = "",
    ) -> None:
        """In a browser of text, which draws nothing, only words that have something `behind` them are read, and it. All
        others would be a heap of numbers there, under what the picture says of itself; most such browsers pass them
        over."""
        shown = cut(printable(words), room, SIZE)
        if shown.strip():
            place = f'x="{x:.1f}" y="{y:.1f}"' + (f' text-anchor="{anchor}"' if anchor != "start" else "")
            said = escape(shown) if self.styled or behind else _drawn_only(shown)
            drawn = f"<text {self._as(name)} {place}>{said}</text>"
            self._parts.append(f'<a href="{escape(printable(link))}">{drawn}</a>' if link and self.live else drawn)
            self.read(behind or " ")

    def read(self, words: str) -> None:
        """Words that nobody draws, for browsers of text."""
        if not self.styled:
            self._parts.append(escape(words))

    def legend(self, names: list[str], x: float, y: float, *, lines: bool) -> float:
        """Rows of swatches and names from this place on; returns how much height they took."""
        at, top = x, y
        for index, name in enumerate(names):
            shown = cut(printable(name), 190.0, SIZE)
            wide = _SWATCH + width_of(shown, SIZE) + 10
            if at > x and at + wide > self.width:
                at, top = x, top + _ROW
            if lines:
                self.path(line_class(index), f"M{at:.1f} {top - 4:.1f} h16")
            else:
                self.part(index, at + 2, top - 9, 11, 10)
            self.text(at + _SWATCH - 2, top, shown, room=self.width - at - _SWATCH + 2, name="ink")
            at += wide
        return top - y + _ROW

    def levels(self, named: list[tuple[str, float]], box: tuple[float, float, float, float], aside: float) -> None:
        """Dashed lines; their names stand beside the plot, one under the other, and so on nothing that is drawn."""
        left, right, top, bottom = box
        last = top - LABEL
        for at, (name, y) in enumerate(sorted(named, key=lambda one: one[1])):
            # as high as its line, but below the name before, and with room for those after
            last = max(last + LABEL, min(y, bottom - LABEL * (len(named) - at - 1)))
            self.line("ask", left, y, right, y)
            self.line("lead", right, y, right + 5, last)
            self.text(right + 8, last + 4, name, room=aside + 2, name="ink")

    def times(
        self,
        ends: tuple[int, int],
        edges: tuple[float, float],
        y: float,
        made: int | None,
        zone: tzinfo,
    ) -> None:
        """The names of round times under a plot that goes from one edge to the other and down to `y`."""
        (start, end), (left, right) = ends, edges
        self.text(left - 6, y + 15, offset_words(start, zone), anchor="end", room=left)
        self.begin("times")
        taken = left - 6
        apart = 50 if end - start > 3 * DAY else 62  # names of days are shorter than of hours
        most = max(2, int((right - left) / apart))
        for when, moment in moments(start, end, most, made, zone):
            name = dated(moment, self.say)
            wide = width_of(name, SIZE)
            place = left + (right - left) * max(0.0, min(1.0, (when - start) / (end - start)))
            x = max(left + wide / 2, min(self.width - wide / 2 - 1, place))
            if x - wide / 2 < taken + 6 - 0.01:
                continue
            self.line("base", place, y, place, y + 3)
            self.text(x, y + 15, name, anchor="middle", room=wide + 1)
            taken = x + wide / 2
        self.end()

    def drawn(self, height: float, title: str, about: str, data: str = "", role: str = "img") -> str:
        """The whole picture, with words for those who do not see it, and `data` for scripts where it is live."""
        size = f'viewBox="0 0 {self.width:.0f} {height:.0f}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} width="{self.width:.0f}" height="{height:.0f}" {_FONT}'
            if self.styled
            else f'<svg class="chart" {size}'
        )
        if self.live and data:
            head += f' data-chart="{escape(data)}"'
        told = f"<title>{escape(printable(title))}</title><desc>{escape(printable(about))}</desc>"
        told += "" if self.styled else ". "  # read where nothing is drawn
        return f'{head} role="{role}">{told}{"".join(self._parts)}</svg>'
