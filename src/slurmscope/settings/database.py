# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""slurmdbd's database, from which it is read which jobs a user had."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Database(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: Annotated[
        str, Meta(description="Where slurmdbd's MariaDB or MySQL is, for `slurmscope db`: a name or an address.")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="Its port.")] = 3306
    socket: Annotated[
        str, Meta(description="Its unix socket, in place of host and port: `/run/mysqld/mysqld.sock`. Empty: none.")
    ] = ""
    name: Annotated[str, Meta(description="The database, as `StorageLoc` in slurmdbd.conf names it.")] = "slurm_acct_db"
    view: Annotated[
        str, Meta(description="The view of users and their jobs that `slurmscope db grant` makes in it.")
    ] = "slurmscope_jobs"
    user: Annotated[str, Meta(description="The user who may read that view, and nothing else.")] = "slurmscope"
    password: Annotated[str, Meta(description="The user's password.", extra={"secret": True})] = ""
    password_file: Annotated[
        str,
        Meta(description="File that holds the password, such as `slurmscope db grant --write-password` makes."),
    ] = ""
    ca: Annotated[
        str,
        Meta(
            description="File of the certificates (PEM) that the server's is checked against. "
            "Empty: TLS where the server has it, unchecked."
        ),
    ] = ""
