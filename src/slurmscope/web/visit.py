# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One request, as a page sees it: who asks, for what, in which language, of which site."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from slurmscope.reports.kept import Reports
from slurmscope.store.protocol import Store
from slurmscope.web.addresses import within
from slurmscope.web.identity import Identity
from slurmscope.web.page import Crumb
from slurmscope.web.people.viewer import Viewer
from slurmscope.web.request import Request, address_of
from slurmscope.web.route import HTML, Route
from slurmscope.web.site import Site
from slurmscope.web.taste import Taste
from slurmscope.web.translation import Translation


class Visit(msgspec.Struct, frozen=True):
    request: Request
    viewer: Viewer
    taste: Taste
    site: Site
    identity: Identity
    form: str = HTML  # in which the answer is wanted
    routes: tuple[Route, ...] = ()  # all that this portal has

    @property
    def store(self) -> Store:
        return self.site.store

    @property
    def reports(self) -> Reports:
        """What they tell is for this viewer's eyes."""
        return self.site.reports(discreet=not self.viewer.staff)

    @property
    def now(self) -> int:
        return self.site.now

    @property
    def base(self) -> str:
        """The site as whoever reads this calls it."""
        scheme = "https" if self.identity.secure(self.request) else "http"
        host = self.request.headers.get("host", "localhost")
        return self.site.settings.mail.url.rstrip("/") or f"{scheme}://{host}"

    @property
    def address(self) -> str:
        """Of this page, as it can be typed from paper."""
        return self.base + address_of(self.request.path, self.request.query)

    @property
    def t(self) -> Translation:
        """For people: what programs, spreadsheets and paper get has the same words for all."""
        return Translation(self.taste.language if self.form == HTML else "en")

    def crumbs(self, cluster: str, *rest: Crumb) -> Sequence[Crumb]:
        """From all clusters to where this is."""
        first = [Crumb(self.t("clusters"), "/")]
        return [*first, Crumb(cluster, within(cluster)), *rest] if cluster else [*first, *rest]
