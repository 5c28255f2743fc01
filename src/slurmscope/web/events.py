# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Tells browsers that a cluster was read anew: server-sent events, for pages that change with each poll.

An event has the cluster's name and no more: what is new, a page asks for as ever, by the rights of who looks.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from slurmscope.model import Snapshot
from slurmscope.server import Answer, Headers, Receive, Send, plain
from slurmscope.web.rendering import HEADERS

SEGMENTS = ("events",)  # of the address
MOST = 100  # streams at a time: half of the connections that there may be, so that there is room for all others
MOST_OF_ONE = 20  # of one person's, who may have as many pages open
BEAT = 15.0  # seconds after which something is sent, lest a proxy take a stream for dead
LONGEST = 600.0  # seconds after which a browser asks anew, and it is looked at again who asks
_AGAIN = 3000  # milliseconds after which it does
_HEADERS: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    *HEADERS,
    (b"x-accel-buffering", b"no"),  # nginx would wait for more
]


class Stream:
    """What one reader has not been told yet. It is a set, so that nothing piles up for who reads slowly."""

    def __init__(self, who: str) -> None:
        """`who` reads it; "" where nobody signs in."""
        self.who = who
        self.news: set[str] = set()
        self.woken = asyncio.Event()
        self.over = False

    def tell(self, cluster: str) -> None:
        self.news.add(cluster)
        self.woken.set()

    def end(self) -> None:
        self.over = True
        self.woken.set()

    async def taken(self) -> bytes:
        """What there is to say, after a while at the latest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BEAT):
                await self.woken.wait()
        self.woken.clear()
        news, self.news = sorted(self.news), set()
        return b"".join(_event(one) for one in news) or b":\n\n"


def _event(cluster: str) -> bytes:
    # JSON, for a name may hold anything
    told = msgspec.json.encode({"cluster": cluster.encode("utf-8", "replace").decode()})
    return b"event: poll\ndata: " + told + b"\n\n"


class Events:
    """All of it happens in the loop that serves."""

    def __init__(self) -> None:
        self._streams: set[Stream] = set()
        self._closed = False

    def begun(self, who: str) -> Stream | Answer:
        """One more, which `stream` ends; or why there is none."""
        own = sum(one.who == who for one in self._streams) if who else 0
        if self._closed or len(self._streams) >= MOST or own >= MOST_OF_ONE:
            told = MOST_OF_ONE if own >= MOST_OF_ONE else MOST
            return plain(
                503, f"{told} pages are told of polls already; ask for the page itself", [(b"retry-after", b"60")]
            )
        found = Stream(who)
        self._streams.add(found)
        return found

    async def publish(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        """A poll has ended."""
        if snapshot.cluster and fresh:
            for one in self._streams:
                one.tell(snapshot.cluster)

    async def stream(self, stream: Stream, receive: Receive, send: Send) -> None:
        """Until the reader goes, or it has lasted long enough."""
        watching = asyncio.create_task(_watch(receive, stream))
        ending = asyncio.get_running_loop().call_later(LONGEST, stream.end)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            said = f"retry: {_AGAIN}\n\n".encode()
            while not stream.over:
                await send({"type": "http.response.body", "body": said, "more_body": True})
                said = await stream.taken()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._streams.discard(stream)
            watching.cancel()
            ending.cancel()

    def close(self) -> None:
        """Ends all streams at once: none would end by itself."""
        self._closed = True
        for one in self._streams:
            one.end()


async def _watch(receive: Receive, stream: Stream) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.end()
