# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The settings as settings/ declares them, by dotted key."""

from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import inspect as types

from slurmscope.settings import Cluster, Settings

CLUSTERS = "clusters"
"""The one section that holds sections: any number, by the names of the clusters."""
TABLES = ("rules", "allocations", "constants")
"""What tables.py reads."""


class Field(NamedTuple):
    hint: Any
    type: types.Type
    words: str
    """What is expected, for people."""
    default: object
    alias: str | None
    secret: bool
    description: str


def _words(type_: types.Type, hint: Any) -> str:
    match type_:
        case types.BoolType():
            return "true or false"
        case types.IntType() | types.FloatType():
            words = "a whole number" if isinstance(type_, types.IntType) else "a number"
            if type_.ge is not None:
                words += f" of at least {type_.ge:g}"
            if type_.gt is not None:
                words += f" above {type_.gt:g}"
            if type_.le is not None:
                words += f" and at most {type_.le:g}"
            return words
        case types.LiteralType():
            # in the order they were declared, which msgspec does not keep
            return "one of " + ", ".join(get_args(get_args(hint)[0]))
        case types.ListType():
            return "a list of text"
        case types.DictType():
            return "a table of numbers" if isinstance(type_.value_type, types.FloatType) else "a table of text"
        case _:
            return "text"


def _field(hint: Any, default: object) -> Field:
    meta = types.type_info(hint)
    assert isinstance(meta, types.Metadata), hint
    return Field(
        hint=hint,
        type=meta.type,
        words=_words(meta.type, hint),
        default=default,
        alias=(meta.extra or {}).get("alias"),
        secret=(meta.extra or {}).get("secret", False),
        description=(meta.extra_json_schema or {})["description"],
    )


SECTIONS: dict[str, type[msgspec.Struct]] = {
    field.name: field.type for field in msgspec.structs.fields(Settings) if field.name not in (CLUSTERS, *TABLES)
}
FIELDS = {
    f"{section}.{name}": _field(hint, getattr(struct(), name))
    for section, struct in SECTIONS.items()
    for name, hint in get_type_hints(struct, include_extras=True).items()
}
_HINTS = get_type_hints(Settings, include_extras=True)
CLUSTERS_FIELD = _field(_HINTS[CLUSTERS], {})
TABLE_FIELDS = {name: _field(_HINTS[name], getattr(Settings(), name)) for name in TABLES}

OF_A_CLUSTER = {
    key.partition(".")[2]: key
    for key in FIELDS
    if key.partition(".")[0] in Cluster.__struct_fields__ and key != "slurm.cluster"
}
"""What a section of [clusters] may set, and which setting it stands for there."""
