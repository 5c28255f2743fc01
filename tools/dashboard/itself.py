# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - what a panel says is one line, and what it asks another
"""The row of slurmscope itself: what it could read, how old that is, and what it costs."""

from __future__ import annotations

from tools.dashboard.panels import GREEN, RED, Col, areas, lines, row, stat, table, words
from tools.dashboard.queries import SLOW

# The older exporters' families are capped alike and would only say the same again.
_CAPPED = 'family=~"slurm_(account_queue_[*]|user_queue_[*]|share_[*]|limit[*]|user_rpcs_total|dbd_user_rpcs_total)"'

ITSELF = row("slurmscope itself",
    table("Which part", "Every part of the picture: whether it was read when last asked for, how old what is shown is, how many of its rows could not be read, and what its last run took. A part that is red keeps its last values; slurmscope's log says why.",
        Col("", "max by (part, source) (slurm_source_info{})"),
        Col("read", "max by (part) (slurm_part_up{})", texts=words({1: ("yes", GREEN), 0: ("no", RED)})),
        Col("age", "max by (part) (slurm_part_age_seconds{})", unit="s"),
        Col("rows skipped", "max by (part) (slurm_part_rows_skipped{})"),
        Col("last run", "max by (part) (slurm_command_last_seconds{})", unit="s"),
        Col("failures", "max by (part) (slurm_command_failures_total{})"),
        labels="part source", w=12, h=10,
    ),
    lines("Age by part", "How old what is shown of each part is. Saws up to 10 s, to a minute and to an hour are the three paces of polling; one that climbs on is a part that cannot be read.",
        ("max by (part) (slurm_part_age_seconds{})", "{{part}}"), beside="max", unit="s", h=10),
    lines("Seconds per command", "What the last run of each command took, reading its answer included. A rise of all is slurmctld, a rise of one is more to tell: jobs, nodes, limits.",
        ("max by (part, command) (slurm_command_last_seconds{})", "{{part}} ({{command}})"), unit="s"),
    areas("Bytes read", "Output of the commands that was read per second, by part.",
        ("sum by (part) (rate(slurm_command_read_bytes_total{}[$__rate_interval]))", "{{part}}"), step=SLOW, unit="Bps"),
    lines("Failures per minute", "Commands that failed, were killed or answered something else, per minute. 0 is what should be here; the log has the message of each.",
        ("60 * sum by (part) (rate(slurm_command_failures_total{}[$__rate_interval]))", "{{part}}"), step=SLOW),
    lines("Ways that failed", "Times per minute that a part had to be read another way, for the one that was to be used failed (slurm_source_fallbacks_total). The numbers are the same; the log has the reason.",
        ("60 * sum by (part, source) (rate(slurm_source_fallbacks_total{}[$__rate_interval]))", "{{part}} by {{source}}"), step=SLOW),
    lines("Rows skipped", "Rows of what is shown that could not be read and were left out. Above 0 something in Slurm's answer is not understood: please report it.",
        ("sum by (part) (slurm_part_rows_skipped{})", "{{part}}")),
    lines("Series left out", "Users, accounts and limits beyond the cap (metrics.top), which are shown as `other` or not at all. Raise the cap if you want them by name; Prometheus pays.",
        (f"sum by (family) (slurm_series_dropped{{{_CAPPED}}})", "{{family}}")),
    lines("Own part of the questions", "The part of slurmctld's RPCs that came from the user that slurmscope runs as, since the statistics began and around each moment. With a user of its own, this is what slurmscope costs slurmctld.",
        ("slurm_own_rpc_ratio{}", "since they began ({{user}})"),
        ("sum(rate(slurm_user_rpcs_total{}[$__rate_interval]) and on (cluster, user) slurm_own_rpc_ratio{}) / sum(rate(slurm_rpcs_total{}[$__rate_interval]))", "around each moment"),
        unit="percentunit",
    ),
    areas("CPU", "CPUs that slurmscope and the commands that it runs use on this machine.",
        ("rate(process_cpu_seconds_total{}[$__rate_interval])", "slurmscope"),
        ("rate(slurm_children_cpu_seconds_total{}[$__rate_interval])", "commands"),
        unit="none", w=6,
    ),
    lines("Memory", "Memory of the slurmscope process. It grows with the queue and stays there.",
        ("process_resident_memory_bytes{}", "resident"), unit="bytes", w=6),
    lines("Scrapes", "Answers given to requests for a page of metrics per second, by status. 401 is a password or token that is missing.",
        ("sum by (code) (rate(slurm_scrapes_total{}[$__rate_interval]))", "{{code}}"), unit="reqps", w=6),
    stat("Versions", "Of slurmctld, of slurmscope, and of slurmd on the nodes: with several of those an update is not finished.",
        ("slurm_version_info{}", "slurmctld {{version}}"),
        ("slurmscope_info{}", "slurmscope {{version}}"),
        ("count by (version) (slurm_node_info{})", "slurmd {{version}}"),
        show="name", w=6, h=8,
    ),
)  # fmt: skip
