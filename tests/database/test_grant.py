# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The SQL that makes the view and its user: names are names, whatever is in them, and secrets are not shown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.database.connection import DatabaseError
from slurmscope.database.grant import (
    Found,
    Statement,
    Wanted,
    granting,
    identifier,
    literal,
    new_password,
    revoking,
    view,
)

WANTED = Wanted("slurm_acct_db", "slurmscope_jobs", "slurmscope", ("localhost", "127.0.0.1"))
HOSTILE = ["a`; DROP TABLE x; -- ", "a' OR '1'='1", "\\", "\\'", "''", "``", 'a"b', "a\nb", "/*", "%s", "漢字", " "]
# as the server reads them in the mode that is set: a quote ends at the first that is neither doubled nor escaped
QUOTED = re.compile(r"`((?:[^`]|``)*)`|'((?:[^'\\]|''|\\.)*)'", re.DOTALL)

names = st.one_of(
    st.sampled_from(HOSTILE), st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1)
)


def skeleton(sql: str) -> str:
    """All but what is in quotes."""
    return QUOTED.sub("?", sql)


def texts(sql: str) -> list[str]:
    """What is in single quotes, as the server understands it."""
    found = [one[2] for one in QUOTED.finditer(sql) if one[0].startswith("'")]
    return [re.sub(r"''|\\(.)", lambda one: one[1] or "'", text, flags=re.DOTALL) for text in found]


@given(names)
def test_a_name_in_quotes_is_that_name(name: str) -> None:
    (found,) = QUOTED.finditer(identifier(name))
    assert found[0] == identifier(name)
    assert found[1].replace("``", "`") == name


@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")))
def test_a_text_in_quotes_is_that_text(text: str) -> None:
    assert skeleton(literal(text)) == "?"
    assert texts(literal(text)) == [text]


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(DatabaseError):
        identifier(name)


@given(st.lists(names, min_size=1, max_size=4))
def test_no_name_of_a_cluster_is_sql(clusters: list[str]) -> None:
    made = view(WANTED, clusters).sql
    assert skeleton(made) == skeleton(view(WANTED, ["plain"] * len(clusters)).sql)
    assert texts(made) == clusters


@given(names, names, names, names, st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1))
def test_no_other_name_is_either(database: str, name: str, user: str, host: str, password: str) -> None:
    wanted = Wanted(database, name, user, (host,))
    plain = Wanted("a", "b", "c", ("d",))
    for hosts, of_plain in (((), ()), ((host,), ("d",))):
        made = granting(wanted, Found(("x",), (), hosts), password)
        like = granting(plain, Found(("x",), (), of_plain), "p")
        assert [skeleton(one.sql) for one in made] == [skeleton(one.sql) for one in like]
        gone = revoking(wanted, Found(("x",), (), hosts))
        assert [skeleton(one.sql) for one in gone] == [
            skeleton(one.sql) for one in revoking(plain, Found(("x",), (), of_plain))
        ]


def test_the_view_has_no_more_than_it_should() -> None:
    sql = view(WANTED, ["alpha", "beta"]).sql
    assert sql.count(" FROM `slurm_acct_db`.") == 2
    assert sql.count("WHERE `deleted` = 0") == 2
    assert "SQL SECURITY DEFINER" in sql
    assert not re.search(r"\*|account|script|work_dir|submit_line|comment|std_", sql)


def test_who_is_there_keeps_his_password() -> None:
    made = [one.sql for one in granting(WANTED, Found(("alpha",), (), WANTED.hosts), None)]
    assert not [one for one in made if "IDENTIFIED" in one]
    assert made[-1] == "GRANT SELECT ON `slurm_acct_db`.`slurmscope_jobs` TO `slurmscope`@`127.0.0.1`"


def test_a_password_is_not_shown() -> None:
    made = granting(WANTED, Found(("alpha",), (), ("localhost",)), "it's \\ mine")
    shown = "\n".join(one.shown for one in made)
    assert "mine" not in shown
    assert "ALTER USER `slurmscope`@`localhost` IDENTIFIED BY '********'" in shown
    assert "CREATE USER IF NOT EXISTS `slurmscope`@`127.0.0.1` IDENTIFIED BY '********'" in shown
    assert Statement("SELECT 1").shown == "SELECT 1"


def test_without_clusters_there_is_no_view() -> None:
    with pytest.raises(DatabaseError, match="no table of jobs of any cluster"):
        granting(WANTED, Found((), ("old",), ()), "x")


def test_passwords_are_long_and_never_the_same() -> None:
    made = {new_password() for _ in range(100)}
    assert len(made) == 100
    for kind in (r"[a-z]", r"[A-Z]", r"[0-9]", r"[^A-Za-z0-9]"):
        assert all(re.search(kind, one) for one in made)
    assert min(map(len, made)) >= 32
