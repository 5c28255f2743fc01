# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A map of nodes: a tile each, filled as far as its CPUs are allocated; its edge and pattern tell its condition.

Thousands of tiles are on one page, so that each is as short as can be: colours and patterns are classes. They stand in
blocks of a fixed width, which a page lays out beside each other as it has room: from a phone to a wall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from string import digits

import msgspec

from slurmscope.model import Node
from slurmscope.web import states
from slurmscope.web.hostlist import folded
from slurmscope.web.stack import PATTERNS
from slurmscope.web.translation import Translation
from slurmscope.words import percent, printable

ASIDE = "aside"
"""Up, and not given to jobs now: maintenance, a reboot, power that is being saved."""
CONDITIONS = (states.UP, states.DRAINING, states.DRAINED, states.DOWN, ASIDE, states.UNKNOWN)

_STEPS = 8  # in which a tile fills
_FILLS = "·▁▂▃▄▅▆▇█"
_MARKS = {states.DRAINING: "!", states.DRAINED: "!", ASIDE: "-", states.DOWN: "✕", states.UNKNOWN: "?"}
_COLUMNS, _PITCH, _SIDE = 16, 17, 14
_ROWS, _MANY_ROWS, _MANY = 4, 8, 1000  # of a block; where there are many nodes, it is higher

Linked = Callable[[Node], str]


class Block(msgspec.Struct, frozen=True):
    label: str  # which nodes it has
    svg: str


def condition(node: Node) -> str:
    """One of CONDITIONS."""
    found = states.condition(node)
    return ASIDE if found == states.UP and not node.usable else found


def share(node: Node) -> float | None:
    """Of its CPUs that are allocated."""
    cpus = node.cpus_effective or node.cpus
    return min(1.0, node.cpus_allocated / cpus) if cpus else None


def blocks(nodes: Sequence[Node], linked: Linked, t: Translation) -> list[Block]:
    """In the order of the nodes. `linked` has the address of one; nothing where its page may not be opened."""
    size = _COLUMNS * (_MANY_ROWS if len(nodes) > _MANY else _ROWS)
    return [_block(nodes[at : at + size], linked, t) for at in range(0, len(nodes), size)]


def _block(nodes: Sequence[Node], linked: Linked, t: Translation) -> Block:
    rows = [nodes[at : at + _COLUMNS] for at in range(0, len(nodes), _COLUMNS)]
    # a tile says only how far to the right it is; its size is in the style sheet
    drawn = "".join(
        f'<g transform="translate(0 {at * _PITCH + 1})">{_row(row, linked, t)}</g>' for at, row in enumerate(rows)
    )
    svg = f'<svg class="tiles" viewBox="0 0 {_COLUMNS * _PITCH} {len(rows) * _PITCH}">{drawn}</svg>'
    return Block(_label([node.name for node in nodes]), svg)


def _label(names: Sequence[str]) -> str:
    """From the first to the last, where all are numbers of one name."""
    first, last = names[0], names[-1]
    if len({name.rstrip(digits) for name in names}) > 1:
        return printable(folded(names).replace("],", "], "))
    return printable(first if first == last else f"{first} – {last}")


def _row(nodes: Sequence[Node], linked: Linked, t: Translation) -> str:
    drawn = []
    for at, node in enumerate(nodes):
        link, seen = linked(node), look(node)
        rect = f'<rect class="{seen}" x="{at * _PITCH + 1}"/>'
        # the mark comes first: to some browsers of text a title is the end of a link
        tile = f"<text>{mark(seen)}</text><title>{escape(told(node, t))}</title>{rect}"
        drawn.append(f'<a href="{escape(link)}">{tile}</a>' if link else f"<g>{tile}</g>")
    return "".join(drawn)


def told(node: Node, t: Translation) -> str:
    """What a tile says to whoever points at it, or hears it."""
    used = share(node)
    share_words = "" if used is None else t("{share} allocated", share=percent(used))
    parts = [states.said(states.node_words(node), t), share_words, node.reason or ""]
    return printable(f"{node.name}: {', '.join(filter(None, parts))}")


def look(node: Node) -> str:
    """The classes of a tile."""
    found = condition(node)
    if found in (states.DOWN, states.UNKNOWN):
        return found
    fill = f"f{step(share(node))}"
    return fill if found == states.UP else f"{fill} {found}"


def mark(look: str) -> str:
    """The same by one letter, where nothing is drawn."""
    fill, _, edge = look.partition(" ")
    return _MARKS.get(edge or fill) or _FILLS[int(fill[1:])]


def step(used: float | None) -> int:
    """How many eighths are filled: what is there at all is seen, and only what is full looks full."""
    if not used:
        return 0
    return _STEPS if used >= 1 else min(_STEPS - 1, max(1, round(used * _STEPS)))


def _gradients() -> Iterable[str]:
    for at in range(1, _STEPS):
        stops = "".join(f'<stop class="{name}" offset="{at / _STEPS}"/>' for name in ("used", "free"))
        yield f'<linearGradient id="fill{at}" x1="0" y1="1" x2="0" y2="0">{stops}</linearGradient>'


FILLS = (
    PATTERNS + f'<svg class="hidden" aria-hidden="true" width="0" height="0"><defs>{"".join(_gradients())}</defs></svg>'
)
"""What tiles are filled with; once on a page."""


def swatch(name: str) -> str:
    """What a legend shows: a tile by its classes."""
    size = _SIDE + 4
    tile = f'<text>{mark(name)} </text><rect class="{name}" x="2" y="2"/>'
    return f'<svg class="tiles" viewBox="0 0 {size} {size}" aria-hidden="true">{tile}</svg>'


# --- one node over time -----------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 1000, 22
# The colour, and from where on down it is drawn: what is worse stands higher, so that colours are not alone.
_LOOKS = {"": ("free", 0), "down": ("bad", 0), "drained": ("held", 8), "planned": ("aside", 15), "gone": ("paper", 0)}
_THIN = 4.0  # of what was short: it is seen all the same


class Stretch(msgspec.Struct, frozen=True):
    """A time in which a node was in one condition: "" for fine, down, drained, planned, gone."""

    since: int
    until: int
    kind: str
    reason: str = ""


def _worse(drawn: tuple[bool, str]) -> bool:
    """What went wrong is drawn over what was well."""
    return drawn[0]


def strip(stretches: Sequence[Stretch], start: int, end: int, label: str) -> str:
    """From left to right; what is not known stays empty."""
    drawn = []
    for one in stretches:
        left = (one.since - start) / (end - start) * _WIDTH
        width = max(_THIN if one.kind else 0.0, (one.until - one.since) / (end - start) * _WIDTH)
        left = min(left, _WIDTH - width)
        look, top = _LOOKS[one.kind]
        place = f'x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_HEIGHT - top}"'
        reason = f"<title>{escape(printable(one.reason))}</title>" if one.reason else ""
        drawn.append((bool(one.kind), f'<rect class="{look}" {place}>{reason}</rect>'))
    return (
        f'<svg class="stack strip" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(printable(label))}">{"".join(rect for _, rect in sorted(drawn, key=_worse))}</svg>'
    )


def strip_swatch(kind: str) -> str:
    """What a legend shows of a kind of Stretch; "" for one that is fine."""
    look, top = _LOOKS[kind]
    rect = f'<rect class="{look}" y="{top}" width="{_HEIGHT}" height="{_HEIGHT - top}"/>'
    return f'<svg class="strip" viewBox="0 0 {_HEIGHT} {_HEIGHT}" aria-hidden="true">{rect}</svg>'
