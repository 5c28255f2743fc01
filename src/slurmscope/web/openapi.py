# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The API as the table of addresses has it: for programs (OpenAPI 3.1), and as words for people."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slurmscope.reports.document import Verdict
from slurmscope.reports.rendering import TYPES
from slurmscope.web.errors import NotFound, NotNow, Refusal, SignInFirst, Wrong
from slurmscope.web.rendering import Said
from slurmscope.web.route import API, GET, JSON, RAW, Route

_REFS = "#/components/schemas/{name}"
_SCHEME = "token"
ABOUT = """Every page of the portal as JSON: behind /api/v1 stands the page's own address. \
Amounts are in base units (seconds, bytes, counts), times in seconds since 1970. What is unknown is null, never 0. \
Parameters that are empty or not known are left aside. \
Whoever asks sees what they would see in the browser; what they may not see is answered as what is not there (404). \
Within v1 nothing is renamed or taken away: names are only added."""


class Page(msgspec.Struct, frozen=True):
    """A page as JSON: this, and its own facts beside it."""

    kind: Annotated[str, Meta(description="What it tells of: jobs, job, array, user, …")]
    title: str
    made: Annotated[int, Meta(description="When, in seconds since 1970.")]
    verdict: Annotated[Verdict, Meta(description="What a person would say of it.")]


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """What may be asked at an address."""

    name: str
    inside: bool  # of the address; else behind its question mark
    required: bool
    schema: dict[str, Any]
    about: str

    @property
    def words(self) -> str:
        """What it may be."""
        return _words(self.schema)

    @property
    def default(self) -> str:
        """What it is where it is not given; "" where that is nothing."""
        value = self.schema.get("default")
        return "" if value in (None, "", [], ()) else str(value).lower() if isinstance(value, bool) else str(value)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One address of a route."""

    id: str
    route: Route
    path: str  # with the names of parameters in braces
    parameters: tuple[Parameter, ...]


@cache
def operations(routes: tuple[Route, ...]) -> tuple[Operation, ...]:
    """All that answers with JSON, by the addresses of the API."""
    beginning = "/" + "/".join(API)
    return tuple(
        Operation(
            id=_id(route, path), route=route, path=beginning + path.rstrip("/"), parameters=_parameters(route, path)
        )
        for route in routes
        if route.method == GET and JSON in route.forms
        for path in route.paths
    )


@cache
def others(routes: tuple[Route, ...]) -> tuple[Operation, ...]:
    """What has one form of its own, at its own address."""
    return tuple(
        Operation(id=_id(route, path), route=route, path=path, parameters=_parameters(route, path))
        for route in routes
        if route.method == GET and RAW in route.forms
        for path in route.paths
    )


def inside(path: str) -> list[str]:
    """The names of the parameters in an address."""
    return [one[1:-1] for one in path.split("/") if one.startswith("{")]


def _id(route: Route, path: str) -> str:
    name = route.name.replace(" ", "_").replace("-", "_")
    return name if path == route.paths[0] else "_".join([name, "of", *inside(path)])


def _parameters(route: Route, path: str) -> tuple[Parameter, ...]:
    _, components = msgspec.json.schema_components((route.asked,), ref_template=_REFS)
    schemas = components[route.asked.__name__]["properties"]
    names = inside(path)
    found = []
    for field in msgspec.structs.fields(route.asked):
        name = field.encode_name
        schema = dict(schemas[name])
        about = schema.pop("description", "")
        if name in names:
            schema.pop("default", None)
            if schema.get("type") == "string" and "pattern" not in schema:
                schema["minLength"] = 1
        found.append(
            Parameter(
                name=name,
                inside=name in names,
                required=field.required or name in names,
                schema=schema,
                about=about,
            )
        )
    return tuple(sorted(found, key=lambda one: names.index(one.name) if one.inside else len(names)))


def _words(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    match schema.get("type"):
        case "array":
            return f"{_words(schema['items'])}, several times"
        case "boolean":
            return "true, false"
        case "integer" | "number":
            least, most = schema.get("minimum"), schema.get("maximum")
            return "number" if least is None or most is None else f"{least} to {most}"
    return f"text like `{schema['pattern']}`" if "pattern" in schema else "text"


class Entry(msgspec.Struct, frozen=True):
    """A route as people read of it: whatever addresses it has, it may be asked the same."""

    route: Route
    paths: tuple[str, ...]
    parameters: tuple[tuple[str, Parameter], ...]  # as they are written: {cluster} or ?cluster

    @property
    def title(self) -> str:
        return self.route.name[:1].upper() + self.route.name[1:]


def entries(known: Iterable[Operation]) -> list[Entry]:
    by_name: dict[str, list[Operation]] = {}
    for one in known:
        by_name.setdefault(one.route.name, []).append(one)
    found = []
    for some in by_name.values():
        everywhere = set.intersection(*(set(inside(one.path)) for one in some))
        parameters = {each.name: each for one in reversed(some) for each in one.parameters}
        marked = [(f"{{{name}}}" if name in everywhere else f"?{name}", each) for name, each in parameters.items()]
        found.append(Entry(some[0].route, tuple(one.path for one in some), tuple(marked)))
    return found


def markdown(known: Iterable[Operation]) -> str:
    """For a page of docs/."""
    lines = []
    for one in entries(known):
        paths = ", ".join(f"`{path}`" for path in one.paths)
        lines.append(f"### {one.title}\n\n{paths}\n\n{one.route.about}\n")
        if one.parameters:
            lines.append("| parameter | what it says | what it may be | if not given |\n|---|---|---|---|")
        for mark, each in one.parameters:
            default = f"`{each.default}`" if each.default else ""
            words = each.words.replace("|", "\\|")
            lines.append(f"| `{mark}` | {each.about} | {words} | {default} |")
        if one.parameters:
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


# --- the document -----------------------------------------------------------------------------------------------------


def document(routes: tuple[Route, ...]) -> dict[str, Any]:
    known = operations(routes)
    shapes = [one.route.shape or Page for one in known]
    schemas, components = msgspec.json.schema_components((Said, *shapes), ref_template=_REFS)
    paths = {one.path: {"get": _get(one, schema)} for one, schema in zip(known, schemas[1:], strict=True)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "slurmscope",
            "version": version("slurmscope"),
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {name: _refused(one, about, schemas[0]) for name, (one, about) in _REFUSALS.items()},
            "securitySchemes": {
                _SCHEME: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token that somebody made at /settings. Where nobody signs in, none is needed.",
                }
            },
        },
        "security": [{_SCHEME: []}],
    }


_REFUSALS: dict[str, tuple[type[Refusal], str]] = {
    "Wrong": (Wrong, "What was asked for cannot be meant."),
    "SignInFirst": (SignInFirst, "No token, or one that does not hold any more."),
    "NotFound": (NotFound, "There is none, or none that you may see."),
    "Failed": (Refusal, "A fault of slurmscope, or of the proxy before it; its log says which."),
    "NotNow": (NotNow, "What is kept cannot be read just now; it may be later."),
}


def _refused(kind: type[Refusal], about: str, schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"description": about, "content": {TYPES[JSON]: {"schema": schema}}}
    if kind is SignInFirst:
        found["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}, "description": "Bearer."}}
    return found


def _get(operation: Operation, schema: dict[str, Any]) -> dict[str, Any]:
    route = operation.route
    answers: dict[str, Any] = {"200": {"description": route.about, "content": {TYPES[JSON]: {"schema": schema}}}}
    for name, (kind, _) in _REFUSALS.items():
        answers[str(kind.status)] = {"$ref": f"#/components/responses/{name}"}
    found: dict[str, Any] = {
        "operationId": operation.id,
        "summary": route.name,
        "description": route.about,
        "parameters": [_parameter(one) for one in operation.parameters],
        "responses": answers,
    }
    if route.section:
        found["tags"] = [route.section]
    return found | ({"security": [{}]} if route.open else {})


def _parameter(one: Parameter) -> dict[str, Any]:
    where = "path" if one.inside else "query"
    return {"name": one.name, "in": where, "required": one.required, "description": one.about, "schema": one.schema}
