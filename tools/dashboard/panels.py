# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of panels, with what all panels of a kind have in common."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from tools.dashboard.queries import SCRAPE, SOURCE, Asked, Json, of_now, of_rows, over_time

GRAFANA = "10.0.0"  # the oldest that it is meant for
_LAST = "lastNotNull"

BLUE, GREEN, YELLOW, ORANGE, RED, PURPLE, GREY = "blue", "green", "yellow", "orange", "red", "purple", "#8e8e8e"
# The same thing has the same colour everywhere.
_OF_USE = {"allocated": BLUE, "idle": GREEN, "other": GREY, "stranded": ORANGE, "unavailable": RED}
_OF_STATE = {"running": BLUE, "pending": YELLOW, "suspended": PURPLE}


class Row(NamedTuple):
    title: str
    panels: tuple[Json, ...]


class Col(NamedTuple):
    """A column of values in a table. One without a name is there for its labels alone."""

    name: str
    expr: str
    unit: str = ""
    width: int = 0
    gauge: Json | None = None  # the levels of a bar from 0 to 1
    texts: list[Json] | None = None


def row(title: str, *panels: Json) -> Row:
    return Row(title, panels)


def levels(colour: str, *above: tuple[float, str]) -> Json:
    """A colour, and others from some values on."""
    steps: list[tuple[float | None, str]] = [(None, colour), *above]
    return {"mode": "absolute", "steps": [{"color": colour, "value": value} for value, colour in steps]}


def words(texts: dict[int, tuple[str, str]]) -> list[Json]:
    """Texts and their colours in place of numbers."""
    options = {
        str(value): {"color": colour, "index": at, "text": text}
        for at, (value, (text, colour)) in enumerate(texts.items())
    }
    return [{"type": "value", "options": options}]


def _panel(kind: str, title: str, about: str, targets: Sequence[Json], w: int, h: int) -> Json:
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": SOURCE,
        "pluginVersion": GRAFANA,  # or Grafana takes the panel for one of version 6 and migrates it
        "gridPos": {"h": h, "w": w, "x": 0, "y": 0},  # `build` says where
        "targets": [{**target, "refId": chr(ord("A") + at)} for at, target in enumerate(targets)],
    }


def _override(matcher: str, wanted: str, **properties: Any) -> Json:
    return {
        "matcher": {"id": matcher, "options": wanted},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }


def _painted(matcher: str, colours: dict[str, str]) -> list[Json]:
    return [_override(matcher, name, color={"fixedColor": one, "mode": "fixed"}) for name, one in colours.items()]


def _known_colours(targets: Sequence[Json]) -> dict[str, str]:
    """The colours of what the legends may say."""
    legends = [target["legendFormat"] for target in targets]
    known = {**_OF_USE, **_OF_STATE}
    return {
        **(_OF_USE if "{{use}}" in legends else {}),
        **(_OF_STATE if "{{state}}" in legends else {}),
        **{legend: known[legend] for legend in legends if legend in known},
    }


def stat(
    title: str,
    about: str,
    *asked: Asked,
    unit: str = "short",
    colours: Json | None = None,
    texts: Sequence[Json] = (),
    empty: str = "no data",
    decimals: int | None = None,
    show: str = "auto",
    w: int = 3,
    h: int = 4,
) -> Json:
    """A number of this moment."""
    defaults: Json = {
        "color": {"mode": "thresholds"},
        "mappings": list(texts),
        "noValue": empty,
        "thresholds": colours or levels(BLUE),
        "unit": unit,
        **({} if decimals is None else {"decimals": decimals}),
    }
    return {
        **_panel("stat", title, about, [of_now(one) for one in asked], w, h),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "center",
            "orientation": "auto",
            "reduceOptions": {"calcs": [_LAST], "fields": "", "values": False},
            "textMode": show,
            "wideLayout": True,
        },
    }


def lines(
    title: str,
    about: str,
    *asked: Asked,
    step: str = SCRAPE,
    unit: str = "short",
    ceiling: float | None = None,
    beside: str = "",
    colours: dict[str, str] | None = None,
    stacked: bool = False,
    w: int = 0,
    h: int = 8,
) -> Json:
    """Lines over time. `beside` puts the legend at the right, with the last value and this statistic of each line;
    `colours` are of lines whose name matches."""
    targets = [over_time(one, step) for one in asked]
    defaults: Json = {
        "color": {"mode": "palette-classic"},
        "custom": {
            "axisBorderShow": False,
            "axisPlacement": "auto",
            "drawStyle": "line",
            "fillOpacity": 55 if stacked else 8,
            "gradientMode": "none",
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "pointSize": 4,
            "scaleDistribution": {"type": "linear"},
            "showPoints": "auto",
            "spanNulls": False,
            "stacking": {"group": "A", "mode": "normal" if stacked else "none"},
            "thresholdsStyle": {"mode": "off"},
        },
        "mappings": [],
        "min": 0,
        "thresholds": levels(GREEN),
        "unit": unit,
        **({} if ceiling is None else {"max": ceiling}),
    }
    painted = _painted("byName", _known_colours(targets)) + _painted("byRegexp", colours or {})
    below = {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True}
    listed = {"calcs": [_LAST, beside], "displayMode": "table", "placement": "right", "showLegend": True}
    return {
        **_panel("timeseries", title, about, targets, w or (12 if beside else 8), h),
        "fieldConfig": {"defaults": defaults, "overrides": painted},
        "options": {
            "legend": {**listed, "sortBy": "Last *", "sortDesc": True} if beside else below,
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


areas = partial(lines, stacked=True)  # on top of each other


def bars(
    title: str,
    about: str,
    *asked: Asked,
    colours: Json | None = None,
    ceiling: float | None = None,
    empty: str = "none",
    w: int = 8,
    h: int = 8,
) -> Json:
    """A bar for each series, of this moment."""
    defaults: Json = {
        "color": {"mode": "thresholds"},
        "mappings": [],
        "min": 0,
        "noValue": empty,
        "thresholds": colours or levels(BLUE),
        "unit": "short",
        **({} if ceiling is None else {"max": ceiling}),
    }
    return {
        **_panel("bargauge", title, about, [of_now(one) for one in asked], w, h),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "displayMode": "basic",
            "maxVizHeight": 28,
            "minVizHeight": 12,
            "minVizWidth": 8,
            "namePlacement": "left",
            "orientation": "horizontal",
            "reduceOptions": {"calcs": [_LAST], "fields": "", "values": False},
            "showUnfilled": True,
            "sizing": "auto",
            "valueMode": "text",
        },
    }


def _column(col: Col) -> Json:
    wanted: Json = {}
    if col.unit:
        wanted["unit"] = col.unit
    if col.gauge:
        cell = {"mode": "basic", "type": "gauge", "valueDisplayMode": "text"}
        wanted |= {"custom__cellOptions": cell, "min": 0, "max": 1, "thresholds": col.gauge}
    if col.texts:
        wanted |= {"mappings": col.texts, "custom__cellOptions": {"type": "color-text"}}
    if col.width:
        wanted["custom__width"] = col.width
    return wanted


def table(
    title: str,
    about: str,
    *columns: Col,
    labels: str,
    sort: str = "",
    widths: dict[str, int] | None = None,
    w: int = 24,
    h: int = 8,
) -> Json:
    """Rows of this moment. `labels` are the columns before those of values, and `widths` some of theirs; sorted by the
    first of them, or by `sort` (with a - the other way round)."""
    keys = [f"Value #{chr(ord('A') + at)}" for at in range(len(columns))]
    if len(columns) == 1:
        keys = ["Value"]  # Grafana numbers values only where there are several
    names = {key: col.name for key, col in zip(keys, columns, strict=True) if col.name}
    hidden = {key: True for key in keys if key not in names}
    wanted = {label: {"custom__width": width} for label, width in (widths or {}).items()}
    wanted |= {col.name: _column(col) for col in columns if col.name}
    defaults: Json = {
        "color": {"mode": "thresholds"},
        "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True, "inspect": False},
        "mappings": [],
        "thresholds": levels(BLUE),
    }
    organised = {
        "excludeByName": {"Time": True, **hidden},
        "indexByName": {name: at for at, name in enumerate([*labels.split(), *names])},
        "renameByName": names,
    }
    by = sort.removeprefix("-") or labels.split(maxsplit=1)[0]
    return {
        **_panel("table", title, about, [of_rows(col.expr) for col in columns], w, h),
        "fieldConfig": {
            "defaults": defaults,
            "overrides": [_override("byName", name, **properties) for name, properties in wanted.items() if properties],
        },
        "options": {
            "cellHeight": "sm",
            "footer": {"countRows": False, "fields": "", "reducer": ["sum"], "show": False},
            "showHeader": True,
            "sortBy": [{"desc": sort.startswith("-"), "displayName": by}],
        },
        "transformations": [{"id": "merge", "options": {}}, {"id": "organize", "options": organised}],
    }


def heatmap(title: str, about: str, buckets: str) -> Json:
    """The buckets of a histogram over time."""
    hide = {"legend": False, "tooltip": False, "viz": False}
    defaults = {"custom": {"hideFrom": hide, "scaleDistribution": {"type": "linear"}}}
    return {
        **_panel("heatmap", title, about, [{**over_time((buckets, "{{le}}")), "format": "heatmap"}], 8, 8),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "calculate": False,
            "cellGap": 1,
            "cellValues": {"unit": "short"},
            "color": {
                "exponent": 0.5,
                "fill": "dark-orange",
                "mode": "scheme",
                "reverse": False,
                "scale": "exponential",
                "scheme": "Oranges",
                "steps": 64,
            },
            "exemplars": {"color": "rgba(255,0,255,0.7)"},
            "filterValues": {"le": 1e-09},
            "legend": {"show": True},
            "rowsFrame": {"layout": "auto"},
            "showValue": "never",
            "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": False},
            "yAxis": {"axisPlacement": "left", "reverse": False, "unit": "s"},
        },
    }


def timeline(title: str, about: str, *asked: Asked, texts: list[Json]) -> Json:
    """A band for each series, coloured by its state."""
    defaults: Json = {
        "color": {"mode": "thresholds"},
        "custom": {"fillOpacity": 70, "lineWidth": 0, "spanNulls": False},
        "mappings": texts,
        "thresholds": levels(RED, (1, GREEN)),
    }
    return {
        **_panel("state-timeline", title, about, [over_time(one) for one in asked], 8, 8),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
            "mergeValues": True,
            "rowHeight": 0.8,
            "showValue": "never",
            "tooltip": {"mode": "single", "sort": "none"},
        },
    }
