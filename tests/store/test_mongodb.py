# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is MongoDB's own: writers that die, documents for others to read, servers that refuse or are not there."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pymongo
import pytest
from servers.process import Server, free_port
from store.cut import Cut
from store.made import D0, T0, ended, kept, kept_lives, kept_measured, kept_usage, life, measured, opened, point, summed

from slurmscope import usage
from slurmscope.life import Life
from slurmscope.store import documents
from slurmscope.store.mongodb import MongoStore, open_mongodb
from slurmscope.store.protocol import Lives, NewerSchema, Span, Store, StoreError, Unreachable
from slurmscope.store.recorder import rebuild, wrong_usage
from slurmscope.usage import Amounts, Key

SHORT = 0.3  # seconds of a lease, so that a dead writer's ends soon


@pytest.fixture
def database(mongodb_url: str) -> Iterator[pymongo.database.Database[dict[str, Any]]]:
    with pymongo.MongoClient[dict[str, Any]](mongodb_url) as client:
        yield client.get_default_database()


def named(url: str) -> str:
    return urlsplit(url).path.strip("/")


# --- writers that die -------------------------------------------------------------------------------------------------

BEFORE = [life(1, state="RUNNING", start_time=T0, node_list="n1", counted_time=T0 + 60), life(2), life(3)]


def after(padding: str) -> list[Life]:
    """Some are new, some replace others, some usage goes and some comes. With enough padding, more than one document
    of a journal holds."""
    return [ended(1), ended(2, user="bea"), *(ended(at, features=padding) for at in range(4, 20))]


def record(store: Store, cluster: str, lives: list[Life], *, rebuild: bool) -> None:
    """As a recorder does: what was known is taken away, what is known now is added."""
    mine = [replaced(one, cluster) for one in lives]
    with store.writing(cluster) as writer:
        known = writer.lives([one.key for one in mine])
        sums: usage.Sums = {}
        for one in mine:
            if one.key in known and not rebuild:
                usage.add(sums, known[one.key], -1)
            usage.add(sums, one, 1)
        if rebuild:
            usage.add(sums, replaced(BEFORE[2], cluster), 1)
            writer.clear_usage(0)
        writer.put_lives(mine)
        writer.add_usage(usage.deltas(sums))
        writer.put_nodes([kept("n1", cluster)])
        writer.drop_nodes(["n2"])
        writer.put_points([point(T0, cluster=cluster)])
        writer.put_spans([Span(T0, T0 + len(lives))])
        writer.put_measured([measured(at, seed=len(lives)) for at in range(2)])


def replaced(one: Life, cluster: str) -> Life:
    return one.__class__(**{name: getattr(one, name) for name in one.__struct_fields__} | {"cluster": cluster})


def whole(store: Store, cluster: str) -> tuple[object, ...]:
    lives = kept_lives(store, cluster)
    assert kept_usage(store, cluster) == summed(lives), "usage is what a rebuild makes of the lives"
    points = store.points(cluster, None, 10, 0, sys.maxsize)
    return lives, kept_measured(store, cluster), store.nodes(cluster), points, store.spans(cluster)


@pytest.mark.parametrize("done", [False, True], ids=["lost", "unanswered"])
@pytest.mark.parametrize("rebuild", [False, True], ids=["add", "rebuild"])
def test_a_writer_may_die_at_any_moment(mongodb_url: str, done: bool, rebuild: bool) -> None:
    commands = 0
    while dies(mongodb_url, commands, after(""), done=done, rebuild=rebuild):
        commands += 1
    assert commands > 15


@pytest.mark.parametrize("commands", [5, 6, 7, 8])
def test_a_writer_may_die_over_a_journal_of_several_documents(mongodb_url: str, commands: int) -> None:
    """Before its first chunk, its second, its head, and before anything is applied."""
    assert dies(mongodb_url, commands, after("x" * 1_000_000), done=False, rebuild=False)


def dies(url: str, commands: int, news: list[Life], *, done: bool, rebuild: bool) -> bool:
    """Lets a writer die after so many commands, if it needs more, and looks at what the next one makes of it."""
    cluster, database = "alpha", f"{named(url)}_{commands}"
    direct, cut = MongoStore(url, database, lease_seconds=SHORT), Cut(url)
    record(direct, cluster, BEFORE, rebuild=False)
    with direct.writing(cluster) as writer:
        writer.put_nodes([kept("n2", cluster)])
    old = whole(direct, cluster)
    dying = MongoStore(cut.url, database, lease_seconds=SHORT)
    cut.after(commands, done=done)
    with suppress(Unreachable):
        record(dying, cluster, news, rebuild=rebuild)
    broken = cut.broken
    cut.close()
    dying.close()
    with direct.writing(cluster):
        pass  # the next writer ends the work of the one that died
    found = whole(direct, cluster)
    record(direct, cluster, news, rebuild=rebuild)
    new = whole(direct, cluster)
    assert found == new if not broken else found in (old, new), f"all or nothing, after {commands} commands"
    assert [one.id for one in kept_lives(direct, cluster)] == list(range(1, 20))
    assert direct.check() == []
    direct.close()
    return broken


def test_a_writer_that_slept_through_its_lease_writes_nothing(mongodb_url: str) -> None:
    store = opened(mongodb_url)
    entered, go_on = threading.Event(), threading.Event()
    told: list[BaseException] = []

    def sleeper() -> None:
        try:
            with store.writing("alpha") as writer:
                writer.put_lives([life(1)])
                entered.set()
                go_on.wait(60)
        except StoreError as error:
            told.append(error)

    thread = threading.Thread(target=sleeper)
    thread.start()
    entered.wait(60)
    with pymongo.MongoClient[dict[str, Any]](mongodb_url) as client:
        # as if it had been renewed for the last time long ago
        client.get_default_database()["leases"].update_one({"_id": "alpha"}, {"$set": {"expires": 0}})
    with store.writing("alpha") as writer:
        writer.put_lives([life(2)])
    go_on.set()
    thread.join()
    assert [one.id for one in kept_lives(store, "alpha")] == [2]
    assert isinstance(told[0], Unreachable) and "was lost" in str(told[0])
    store.close()


def test_a_journal_that_was_left_is_told_and_then_applied(mongodb_url: str) -> None:
    direct = MongoStore(mongodb_url, named(mongodb_url), lease_seconds=SHORT)
    cut = Cut(mongodb_url)
    dying = MongoStore(cut.url, named(mongodb_url), lease_seconds=SHORT)
    cut.after(5, done=False)  # the lease taken in four, the journal written
    with pytest.raises(Unreachable), dying.writing("alpha") as writer:
        writer.put_lives([life(1)])
    dying.close()
    threading.Event().wait(SHORT * 1.5)
    assert [one for one in direct.check() if "alpha" in one and "died" in one]
    with direct.writing("alpha") as writer:
        assert [one.id for one in writer.open_lives()] == [1]
    assert direct.check() == []
    direct.close()


# --- for others to read -----------------------------------------------------------------------------------------------


def test_documents_are_readable(mongodb_url: str, database: pymongo.database.Database[dict[str, Any]]) -> None:
    store = open_mongodb(mongodb_url)
    with store.writing("alpha") as writer:
        writer.put_lives([ended(1, gpus={"": 1, "a.100": 2})])
        writer.put_nodes([kept("n1")])
        writer.add_usage({Key(D0, "alpha", "physics", "ana", "gpu", "normal", "a100"): Amounts(gpu_seconds=5)})
        writer.put_measured([measured(1, gpus=1)])
    job = database["jobs"].find_one({"user": "ana", "state": "COMPLETED", "gpus.type": "a.100"})
    assert job is not None and job["_id"] == f"alpha.1.{T0}" and job["cpus"] == 4
    assert job["gpus"] == [{"type": "", "count": 1}, {"type": "a.100", "count": 2}]
    node = database["nodes"].find_one({"_id": "alpha.n1"})
    assert node is not None and node["flags"] == ["CLOUD", "DRAIN"] and node["since"] == T0 - 100
    row = database["usage"].find_one({"_id": f"{D0}.alpha.physics.ana.gpu.normal.a100"})
    assert row is not None and row["gpu_seconds"] == 5 and row["day"] == D0
    used = database["measured"].find_one({"_id": job["_id"], "coverage": {"$gt": 0.5}, "gpu_share": {"$lt": 1}})
    assert used is not None and used["cpu_share"] == measured(1, gpus=1).summary.cpu_share
    assert database["series"].count_documents({"_id": job["_id"], "last": used["last"]}) == 1
    store.close()


def test_a_database_of_the_first_schema_is_taken_over(
    mongodb_url: str, database: pymongo.database.Database[dict[str, Any]]
) -> None:
    store = open_mongodb(mongodb_url)
    with store.writing("alpha") as writer:
        writer.put_lives([life(1)])
    store.close()
    for name in ("measured", "series"):
        database[name].drop()
    database["meta"].update_one({"_id": "schema"}, {"$set": {"number": 1}})
    store = open_mongodb(mongodb_url)
    assert store.stats().schema == 4 and "last_1" in database["series"].index_information()
    with store.writing("alpha") as writer:
        writer.put_measured([measured(1)])
    assert kept_lives(store, "alpha") == [life(1)] and kept_measured(store, "alpha") == [measured(1)]
    store.close()


def test_a_database_of_the_second_schema_is_taken_over(
    mongodb_url: str, database: pymongo.database.Database[dict[str, Any]]
) -> None:
    """Documents without what was not counted then; also one that an older process adds meanwhile."""
    used = measured(1, gpus=2)
    one, sums = ended(1, gpus={"a100": 2}), summed([ended(1, gpus={"a100": 2})])
    store = open_mongodb(mongodb_url)
    with store.writing("alpha") as writer:
        writer.put_lives([one])
        writer.put_measured([used])
        writer.add_usage(sums)
    store.close()
    database["jobs"].update_many({}, {"$unset": {"gpu_share": "", "guess": ""}})
    database["usage"].update_many({}, {"$unset": {"gpu_used_ms": "", "gpu_known_seconds": ""}})
    database["jobs"].drop_index("cluster_1_end_time_1")
    database["meta"].update_one({"_id": "schema"}, {"$set": {"number": 2}})
    store = open_mongodb(mongodb_url)
    assert store.stats().schema == 4 and "cluster_1_end_time_1" in database["jobs"].index_information()
    assert kept_lives(store, "alpha") == [one] and kept_usage(store, "alpha") == sums
    (found,) = database["usage"].find()
    assert (found["gpu_used_ms"], found["gpu_known_seconds"]) == (0, 0)
    database["usage"].update_many({}, {"$unset": {"gpu_used_ms": "", "gpu_known_seconds": ""}})
    assert kept_usage(store, "alpha") == sums
    rebuild(store, "alpha")
    assert wrong_usage(store, "alpha") == [] and used.summary.gpu is not None
    assert [life.gpu_share for life in kept_lives(store, "alpha")] == [used.summary.gpu.mean]
    store.close()


def test_a_database_of_the_third_schema_is_taken_over(
    mongodb_url: str, database: pymongo.database.Database[dict[str, Any]]
) -> None:
    one = ended(1, name="Train", gpus={"a100": 2}, array_id=5)
    store = open_mongodb(mongodb_url)
    with store.writing("alpha") as writer:
        writer.put_lives([one, life(2)])
    store.close()
    gone = dict.fromkeys(("fold", "started", "lowered", "node_names"), "")
    database["jobs"].update_many({}, {"$unset": gone})
    older = [("user", 1), ("submitted", -1), ("id", -1), ("cluster", 1)]
    database["jobs"].create_index(older)
    database["usage"].drop_index([("user", 1), ("day", 1)])
    database["meta"].update_one({"_id": "schema"}, {"$set": {"number": 3}})
    store = open_mongodb(mongodb_url)
    assert store.stats().schema == 4
    for name, wanted in documents.INDEXES.items():
        keys = [list(index["key"].items()) for index in database[name].list_indexes()]
        assert older not in keys and all(index in keys for index in wanted), name
    for asked in (Lives(node="n2"), Lives(named="tRAIN", id=5), Lives(gpu_type="a100"), Lives(order="ran", limit=1)):
        assert store.lives(asked) == [one], asked
    assert [(fold.life, fold.after) for fold in store.folded(Lives())] == [(one, (T0, 5)), (life(2), (T0, 2))]
    assert store.judged("alpha") == 0 and store.findings("alpha", [one.key]) == {}
    store.close()


def test_a_document_under_another_name_is_found(
    mongodb_url: str, database: pymongo.database.Database[dict[str, Any]]
) -> None:
    store = open_mongodb(mongodb_url)
    with store.writing("alpha") as writer:
        writer.put_lives([life(1)])
    database["jobs"].update_one({}, {"$set": {"id": 2}})
    (found,) = store.check()
    assert f"alpha.1.{T0}" in found
    store.close()


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_newer_schema_is_left_alone(mongodb_url: str, database: pymongo.database.Database[dict[str, Any]]) -> None:
    open_mongodb(mongodb_url).close()
    database["meta"].update_one({"_id": "schema"}, {"$set": {"number": 99}})
    with pytest.raises(NewerSchema, match=r"schema 99.*newer one, which is needed here"):
        open_mongodb(mongodb_url)


def test_another_programs_database_is_left_alone(
    mongodb_url: str, database: pymongo.database.Database[dict[str, Any]]
) -> None:
    database["customers"].insert_one({"name": "Zoë"})
    with pytest.raises(StoreError, match="another program's database"):
        open_mongodb(mongodb_url)
    assert database.list_collection_names() == ["customers"]


def test_a_wrong_password_is_told_and_not_shown(mongodb: Server) -> None:
    parts = urlsplit(mongodb.url)
    with pytest.raises(StoreError, match=r"the user or the password of store\.url is wrong") as told:
        open_mongodb(f"mongodb://{parts.username}:hidden1@{parts.hostname}:{parts.port}/x?authSource=admin")
    assert not isinstance(told.value, Unreachable)
    assert_hidden(told.value)


def test_no_server_is_unreachable() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1.*cannot be reached.*does the server run") as told:
        open_mongodb(f"mongodb://ana:hidden1@127.0.0.1:{free_port()}/x?serverSelectionTimeoutMS=200")
    assert_hidden(told.value)


@pytest.mark.parametrize(
    "url",
    [
        "mongodb://ana:hid/den1@127.0.0.1/x",
        "mongodb://ana:hid?den1@127.0.0.1/x",
        "mongodb://ana:hid@den1@127.0.0.1/x",
        "mongodb://ana:hidden1@127.0.0.1:port/x",
        "mongodb://ana:hidden1%ZZ@127.0.0.1/x",
        "mongodb://ana:hidden1@/x",
        "mongodb://",
    ],
)
def test_an_url_that_is_none_is_told_and_not_shown(url: str) -> None:
    with pytest.raises(StoreError, match=r"store\.url is not an URL of MongoDB's") as told:
        open_mongodb(url)
    assert_hidden(told.value)


def assert_hidden(error: BaseException) -> None:
    """Neither in the message, nor in what a traceback would show."""
    told: BaseException | None = error
    while told is not None and not told.__suppress_context__:
        assert not re.search("hid|den1", str(told))
        told = told.__cause__ or told.__context__
    assert not re.search("hid|den1", str(error))


def test_a_server_that_goes_away_and_comes_back(mongodb: Server, mongodb_url: str) -> None:
    store = open_mongodb(mongodb_url + "&serverSelectionTimeoutMS=500")
    with store.writing("alpha") as writer:
        writer.put_lives([life(1)])
    with mongodb.stopped():
        with pytest.raises(Unreachable):
            store.life("alpha", 1, T0)
        with pytest.raises(Unreachable), store.writing("alpha"):
            raise AssertionError("nobody may write now")
    with store.writing("alpha") as writer:
        writer.put_lives([life(2)])
    assert [one.id for one in kept_lives(store, "alpha")] == [1, 2]
    store.close()


def test_without_the_driver_the_cure_is_told() -> None:
    code = "import sys; sys.modules['pymongo'] = sys.modules['bson'] = None; import slurmscope.store.mongodb"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "StoreError" in told.stderr and "pip install 'slurmscope[mongodb]'" in told.stderr
