# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with how a page looks, found out in the browser itself. Each gives what is wrong, in words."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path

from playwright.sync_api import Page

WIDTHS = (320, 360, 1280, 3840)
PICTURES = Path(__file__).resolve().parents[3] / "build" / "screenshots"
"""Where pictures of pages are kept for somebody to look at."""

_WIDER = """() => [...document.querySelectorAll("body *")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
  .slice(0, 3).map((one) => one.outerHTML.slice(0, 120))"""

# Of each line of text that can be seen, its box as it is clipped. That box is as high as the font's largest letters,
# and neighbours may reach into it: only what is well inside counts.
_OVERLAPS = """() => {
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  const clipped = (box, element) => {
    let { left, right, top, bottom } = box;
    for (let one = element; one && one !== document.body; one = one.parentElement) {
      const style = getComputedStyle(one);
      if (style.display === "inline" || style.overflow === "visible") continue;
      const edge = one.getBoundingClientRect();
      left = Math.max(left, edge.left); right = Math.min(right, edge.right);
      top = Math.max(top, edge.top); bottom = Math.min(bottom, edge.bottom);
    }
    return { left, right, top, bottom };
  };
  for (let node; (node = walker.nextNode());) {
    const owner = node.parentElement;
    if (!node.data.trim() || owner.closest("title, script, style, option")) continue;
    if (!owner.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      const box = clipped(rect, owner);
      const inset = (box.bottom - box.top) / 4;
      box.top += inset; box.bottom -= inset; box.left += 1; box.right -= 1;
      if (box.right - box.left > 1 && box.bottom - box.top > 1) boxes.push({ ...box, node, text: node.data.trim() });
    }
  }
  boxes.sort((one, other) => one.top - other.top);
  const found = [];
  for (let at = 0; at < boxes.length && found.length < 5; at++) {
    for (let next = at + 1; next < boxes.length && boxes[next].top < boxes[at].bottom; next++) {
      const [one, other] = [boxes[at], boxes[next]];
      if (one.node !== other.node && one.left < other.right && other.left < one.right)
        found.push(`"${one.text.slice(0, 40)}" and "${other.text.slice(0, 40)}"`);
    }
  }
  return found;
}"""

_AXE = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .flatMap((one) => one.nodes.slice(0, 3).map((node) => {
    const why = [...node.any, ...node.all, ...node.none].map((check) => check.message);
    return `${one.id}: ${why.join("; ")}: ${node.html.slice(0, 200)}`;
  }))"""


def overflowing(page: Page) -> list[str]:
    """Whether one has to scroll sideways, and what is to blame."""
    if not page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        return []
    return [f"wider than the window: {one}" for one in page.evaluate(_WIDER) or ["?"]]


def overlapping(page: Page) -> list[str]:
    """Texts that stand on each other."""
    return [f"on each other: {one}" for one in page.evaluate(_OVERLAPS)]


@cache
def _axe() -> str:
    return resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()


def inaccessible(page: Page) -> list[str]:
    """What axe-core calls serious or critical."""
    page.evaluate(_axe())
    return list(page.evaluate(_AXE))


def name_of(path: str) -> str:
    """Of a file, for a path of the table of addresses."""
    return re.sub(r"[^a-z=]+", "-", path).strip("-") or "home"


def wrong(page: Page, name: str, width: int) -> list[str]:
    """All of that at any width; a picture of the page is kept at one."""
    found = []
    for one in WIDTHS:
        page.set_viewport_size({"width": one, "height": 900})
        page.evaluate("scrollTo(0, 0)")  # or what stays at the top would be in the midst of it
        found += [f"{one} px: {what}" for what in (*overflowing(page), *overlapping(page))]
    page.set_viewport_size({"width": width, "height": 900})
    kept(page, name)
    return found + inaccessible(page)


def kept(page: Page, name: str) -> None:
    path = PICTURES / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path, full_page=True)
