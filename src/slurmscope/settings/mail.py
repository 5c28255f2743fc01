# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Mail: by which server, to whom, when, and when not."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Mail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: Annotated[
        bool,
        Meta(
            description="Whether mail is sent. Until then all is decided and written down as it would be "
            "(`slurmscope mail log`), and nothing is sent."
        ),
    ] = False
    host: Annotated[str, Meta(description="The mail server that takes what is sent.")] = "localhost"
    port: Annotated[
        int,
        Meta(ge=0, le=65535, description="Its port. 0: 587, or as `mail.security` has it: 465 for tls, 25 for none."),
    ] = 0
    security: Annotated[
        Literal["starttls", "tls", "none"],
        Meta(
            description="`starttls`: the connection becomes secret before anything is said, or nothing is sent; `tls`: "
            "it is from the start; `none`: for a server of this machine, or without a login. Certificates are checked."
        ),
    ] = "starttls"
    ca: Annotated[
        str,
        Meta(description="File of the certificates (PEM) that the server's is checked against. Empty: the system's."),
    ] = ""
    user: Annotated[str, Meta(description="Name to log in with. Empty: no login.")] = ""
    password: Annotated[str, Meta(description="The user's password.", extra={"secret": True})] = ""
    password_file: Annotated[str, Meta(description="File that holds the password; read anew each time.")] = ""
    answer_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=600,
            description="Seconds that the server may take for each answer; to a whole mail, ten times as long.",
        ),
    ] = 20.0
    sender: Annotated[str, Meta(description="Whom mail is from: an address, or `A name <address>`.")] = (
        "slurmscope@localhost"
    )
    reply_to: Annotated[str, Meta(description="The help desk's address, where answers go. Empty: to the sender.")] = ""
    address: Annotated[
        str, Meta(description="A user's address: `{user}` stands for the name, as in `{user}@example.org`.")
    ] = "{user}"
    addresses: Annotated[
        dict[str, str], Meta(description="Addresses of those users for whom `mail.address` is not right, by name.")
    ] = {}
    url: Annotated[
        str,
        Meta(
            description="Where people reach `slurmscope serve`: `https://slurmscope.example.org`. Empty: mails have no "
            "links, nobody can opt out by one, and nobody signs in to the portal by OpenID Connect."
        ),
    ] = ""
    link_days: Annotated[int, Meta(ge=1, description="Days for which a link in a mail can be used.")] = 60
    templates: Annotated[
        str, Meta(description="Folder of the site's own templates. Those that it does not have are the built-in ones.")
    ] = ""
    time_zone: Annotated[
        str, Meta(description="In which quiet times are meant: `Europe/Paris`. Empty: this machine's.")
    ] = ""
    quiet_days: Annotated[
        list[str],
        Meta(description="Days on which nobody is written to: `sat`, `sun`, `2026-12-25`. What falls on them waits."),
    ] = []
    quiet_hours: Annotated[
        str, Meta(description="Hours in which nobody is written to: `20:00-07:00`. Empty: none.")
    ] = ""
    least_days: Annotated[
        int, Meta(ge=0, description="Days between two mails about the same rule to the same person, at least.")
    ] = 7
    exempt_users: Annotated[list[str], Meta(description="Who is never warned, and never cancelled.")] = []
    exempt_accounts: Annotated[list[str], Meta(description="Accounts whose jobs nobody is warned of.")] = []
    exempt_partitions: Annotated[list[str], Meta(description="Partitions whose jobs nobody is warned of.")] = []
    pis: Annotated[
        dict[str, str], Meta(description="Who answers for an account: addresses by the names of accounts.")
    ] = {}
    staff: Annotated[str, Meta(description="The staff's address, for what neither user nor PI has changed.")] = ""
    to_pi: Annotated[
        int,
        Meta(
            ge=0,
            description="From which warning on, of the same rule within `mail.ladder_days`, the account's PI is told "
            "too. 0: never.",
        ),
    ] = 3
    to_staff: Annotated[int, Meta(ge=0, description="From which one on `mail.staff` is told too. 0: never.")] = 5
    ladder_days: Annotated[int, Meta(ge=1, description="Days after which earlier warnings do not count any more.")] = 90
    jobs: Annotated[
        bool,
        Meta(
            description="Whether a user is written to after a job in which something bad was found, without having "
            "asked Slurm for it."
        ),
    ] = True
    digest_day: Annotated[
        Literal["never", "mon", "tue", "wed", "thu", "fri", "sat", "sun"],
        Meta(description="On which day of the week people get their digest of the week before."),
    ] = "mon"
    digest_core_hours: Annotated[
        float, Meta(ge=0, description="Core-hours wasted in a week below which nobody gets a digest for them.")
    ] = 100.0
    digest_gpu_hours: Annotated[
        float, Meta(ge=0, description="GPU-hours wasted in a week below which nobody gets a digest for them.")
    ] = 10.0
    digest_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of what somebody used, over all, on the mean and on the median of the jobs, that must "
            "be wasted before there is a digest.",
        ),
    ] = 0.3
    per_minute: Annotated[int, Meta(ge=1, description="Mails that are sent in a minute, at most.")] = 30
    keep_days: Annotated[
        int, Meta(ge=1, description="Days from the first try on for which it is tried again to send a mail.")
    ] = 5
    log_days: Annotated[int, Meta(ge=1, description="Days that the log of what was done and not done is kept.")] = 730
    cancel_zero_gpu: Annotated[
        bool,
        Meta(
            description="Whether a running job that never used its GPUs is cancelled, after two warnings to its user. "
            "Nothing else is ever cancelled; needs `mail.enabled`, and `squeue` and `scancel` here."
        ),
    ] = False
    cancel_hours: Annotated[
        float, Meta(gt=0, description="Hours after each of the two warnings before the next step is taken.")
    ] = 4.0
