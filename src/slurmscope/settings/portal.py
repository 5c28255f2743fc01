# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The portal: how people sign in to it, and who sees everything."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Portal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sign_in: Annotated[
        list[str],
        Meta(
            description="How people sign in: any of `local` (accounts made by `slurmscope portal user add`), `proxy` "
            "(a reverse proxy says who somebody is) and `oidc` (OpenID Connect). Empty: nobody does, and whoever "
            "reaches the portal sees everything, which is for this machine's own users (`serve.listen` on loopback)."
        ),
    ] = []
    staff: Annotated[
        list[str],
        Meta(
            description="Names of the users who see everything. All others see their own jobs, and those of accounts "
            "whose coordinators they are in Slurm."
        ),
    ] = []
    session_hours: Annotated[
        float,
        Meta(
            gt=0,
            le=168,
            description="Hours after which somebody who has not used the portal signs in anew. After seven days "
            "everybody does.",
        ),
    ] = 12.0
    share_days: Annotated[
        int, Meta(ge=1, le=366, description="Days for which a job can be shared by a link, at most.")
    ] = 7
    proxies: Annotated[
        list[str],
        Meta(
            description="Addresses or networks of the reverse proxies that are believed: `10.0.0.7`, `10.1.0.0/24`, "
            "`fd00::/64`. From others the header is ignored. They are also believed from where somebody comes "
            "(`X-Forwarded-For`)."
        ),
    ] = []
    proxy_header: Annotated[
        str,
        Meta(
            description="Header in which a proxy names the user who has signed in. The proxy must remove it from what "
            "people send."
        ),
    ] = "X-Remote-User"
    oidc_issuer: Annotated[
        str,
        Meta(
            description="Address of the OpenID provider, as it calls itself (its `iss`): "
            "`https://login.example.org/realms/hpc`."
        ),
    ] = ""
    oidc_client_id: Annotated[str, Meta(description="What the provider calls slurmscope.")] = ""
    oidc_client_secret: Annotated[
        str,
        Meta(
            description="The secret that the provider gave it. Empty: it gave none, and PKCE alone protects sign-in.",
            extra={"secret": True},
        ),
    ] = ""
    oidc_client_secret_file: Annotated[str, Meta(description="File that holds the secret; read anew each time.")] = ""
    oidc_claim: Annotated[
        str,
        Meta(
            description="The claim that has the name of the user in Slurm. It must be one that people cannot choose "
            "for themselves."
        ),
    ] = "preferred_username"
    oidc_scopes: Annotated[
        list[str], Meta(description="What is asked of the provider, besides `openid` and `profile`.")
    ] = []
