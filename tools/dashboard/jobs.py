# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - what a panel says is one line, and what it asks another
"""Rows of what jobs use: the chosen jobs now, their CPUs, memory, GPUs, input and output, and what they run.

A node may be told of twice, by its agent's own page and by serve's `/metrics/jobs`: so what is of one job on one node
is taken once (`max by`) before anything is added up.
"""

from __future__ import annotations

from functools import partial

from tools.dashboard import panels
from tools.dashboard.panels import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, YELLOW, Col, bars, levels, row, stat, table
from tools.dashboard.queries import AGENT, Asked

lines = partial(panels.lines, step=AGENT)
areas = partial(panels.areas, step=AGENT)

_JOB = "jobid, user, node"
_GPU = f"{_JOB}, gpu, uuid, model"
_SHOWN = "{{jobid}} {{user}} {{node}}"
_IDLE_IS_BAD = levels(RED, (0.25, YELLOW), (0.7, BLUE))
_FULL_IS_BAD = levels(BLUE, (0.9, YELLOW), (0.97, RED))


def each(metric: str, by: str = _JOB) -> str:
    """A gauge of each job on each node."""
    return f"max by ({by}) (slurm_job_{metric}{{JOB}})"


def pace(metric: str, by: str = _JOB, over: str = "[$__rate_interval]") -> str:
    """How fast a counter of each job on each node grows."""
    return f"max by ({by}) (rate(slurm_job_{metric}{{JOB}}{over}))"


def _most(metric: str, by: str = _JOB, number: int = 10) -> str:
    """Those that had most of a gauge in the time shown, counted as the area under their lines."""
    return f"topk({number}, max by ({by}) (sum_over_time(slurm_job_{metric}{{JOB}}[$__range] @ end())))"


def _fastest(metric: str) -> str:
    return f"topk(10, {pace(metric, over='[$__range] @ end()')})"


_CORES = each("cpu_usage_cores")
_CPUS = each("cpus")
_LIMIT = each("memory_limit_bytes")
_NEEDED = f"({each('memory_anonymous_bytes')} + {each('memory_shared_bytes')})"
_NOT_USED = f"{each('gpu_held_idle', _GPU)} == 1"
_GPUS = "max by (node, uuid) "  # a GPU may be held by several jobs

NOW = row("Chosen jobs, now",
    stat("Jobs", "Chosen jobs that agents see now. A job on several nodes is one.",
        f"count(count by (jobid) ({each('processes')}))"),
    stat("CPUs in use", "Cores that the chosen jobs used since the look before, as a part of the CPUs that they may use. Low for long: they asked for more than they need, or they hang.",
        f"sum({_CORES}) / sum({_CPUS} and {_CORES})", unit="percentunit", decimals=1, colours=_IDLE_IS_BAD),
    stat("Nearest to its limit", "Memory that a job cannot do without (anonymous and shared) as a part of what it may have, of the chosen job on the node where that is most. At 100 % the kernel kills.",
        f"max({_NEEDED} / {_LIMIT})", unit="percentunit", decimals=1, colours=_FULL_IS_BAD, empty="no limits"),
    stat("Killed for memory", "Processes of the chosen jobs that the kernel has killed for want of memory, since those began. The job may go on without them, and its result may be wrong.",
        f"sum({each('oom_kills_total')})", colours=levels(GREEN, (1, RED)), empty="not told"),
    stat("GPUs held", "GPUs that the chosen jobs hold; one that several share is one.",
        f"count({_GPUS}(slurm_job_gpu_jobs{{JOB}}))", empty="none"),
    stat("GPUs held idle", "GPUs that a chosen job holds while no process of it is on them. The table under GPUs says whose.",
        f"count(max by (node, uuid) ({_NOT_USED})) or sum({each('gpu_held_idle', _GPU)})", colours=levels(GREEN, (1, ORANGE)), empty="no GPUs"),
    stat("GPUs in use", "Mean share of the time in which the GPUs that chosen jobs hold were in use.",
        f"avg({_GPUS}(slurm_job_gpu_utilization_ratio{{JOB}}))", unit="percentunit", decimals=1, colours=_IDLE_IS_BAD, empty="no GPUs"),
    stat("Agents", "Nodes of which an agent told in the last minutes: scraped, or, where none is, those that report to serve. Fewer than there are nodes: see Agents below.",
        "count(max by (node) (slurm_agent_info{NODE})) or max(slurm_agents{})", empty="none"),
    table("Job by job", "Every chosen job on each of its nodes: what it has and what it does with it. Sort by a column to find those that hold much and use little.",
        Col("processes", each("processes", "jobid, user, account, node"), width=100),
        Col("CPUs", _CPUS, width=80),
        Col("in use", _CORES, unit="none", width=90),
        Col("of its CPUs", f"{_CORES} / {_CPUS}", unit="percentunit", gauge=_IDLE_IS_BAD),
        Col("memory", _NEEDED, unit="bytes", width=110),
        Col("of its limit", f"{_NEEDED} / {_LIMIT}", unit="percentunit", gauge=_FULL_IS_BAD),
        Col("GPUs", f"count by ({_JOB}) ({each('gpu_jobs', _GPU)})", width=80),
        Col("GPUs in use", f"avg by ({_JOB}) ({each('gpu_utilization_ratio', _GPU)})", unit="percentunit", gauge=_IDLE_IS_BAD),
        labels="jobid user account node", sort="-CPUs", widths={"jobid": 110, "user": 130, "account": 130, "node": 130}, h=9,
    ),
)  # fmt: skip

CPU = row("CPU",
    lines("Cores in use and allocated", "Cores that all chosen jobs use together, beside the CPUs that they may use. The space between the lines is what they hold and leave idle.",
        (f"sum({_CORES})", "in use"), (f"sum({_CPUS})", "allocated"), unit="none"),
    lines("Cores in use by job", "Cores that each chosen job uses on each node: the ten that used most in the time shown. Saws are jobs that compute and write in turns.",
        (f"{_CORES} and {_most('cpu_usage_cores')}", _SHOWN), unit="none", w=8),
    bars("Least use of its CPUs", "The ten chosen jobs that use the smallest part of their CPUs on a node now. Near 0 they hang, wait for input, or use a GPU alone; 1/n of n CPUs is a program that knows one core only.",
        (f"bottomk(10, {_CORES} / {_CPUS})", _SHOWN), colours=_IDLE_IS_BAD, ceiling=1),
    areas("In programs and in the kernel", "Cores that the chosen jobs use in their own programs and in the kernel. Much in the kernel: many small reads and writes, processes that are started by the thousand, or memory that is moved about.",
        (f"sum({pace('cpu_user_seconds_total')})", "programs"), (f"sum({pace('cpu_system_seconds_total')})", "kernel"), unit="none", w=12),
    lines("Held back by a limit", "Seconds per second in which a chosen job was held back by a limit on its processor time (cpu.max). Above 0 somebody has set one; Slurm itself fences off whole cores instead.",
        (f"{pace('cpu_throttled_seconds_total')} and {_fastest('cpu_throttled_seconds_total')}", _SHOWN), unit="none", w=12),
)  # fmt: skip

MEMORY = row("Memory",
    lines("Memory and its limit", "Of all chosen jobs together: what they cannot do without (anonymous and shared), the file cache that is charged to them and that the kernel takes back when it must, the most that was ever charged to each, and what they may have. Jobs without a limit are not in the last.",
        (f"sum({_NEEDED})", "anonymous and shared"),
        (f"sum({each('memory_file_bytes')})", "file cache"),
        (f"sum({each('memory_peak_bytes')})", "peak"),
        (f"sum({_LIMIT})", "limit"),
        unit="bytes", colours={"/^limit$/": RED, "/^peak$/": ORANGE, "/^file cache$/": GREY, "/^anonymous and shared$/": BLUE},
    ),
    lines("Memory by job", "Anonymous and shared memory of each chosen job on each node: the ten that had most in the time shown. One that climbs steadily will meet its limit.",
        (f"{_NEEDED} and {_most('memory_anonymous_bytes')}", _SHOWN), unit="bytes"),
    lines("Part of the limit by job", "The same as a part of what the job may have on the node. Far below 1 for all of a job: it asked for memory that others wait for.",
        (f"{_NEEDED} / {_LIMIT} and {_most('memory_anonymous_bytes')}", _SHOWN), unit="percentunit"),
    areas("Memory by kind", "What is charged to the chosen jobs, by kind: what programs allocated and touched, shared memory and tmpfs, file cache.",
        (f"sum({each('memory_anonymous_bytes')})", "anonymous"),
        (f"sum({each('memory_shared_bytes')})", "shared"),
        (f"sum({each('memory_file_bytes')})", "file cache"),
        unit="bytes", colours={"/^file cache$/": GREY, "/^anonymous$/": BLUE, "/^shared$/": PURPLE}, w=12,
    ),
    lines("Killed for want of memory", "Processes of each chosen job that the kernel has killed since it began, where there are any. A step up is a moment at which the limit was met: raise --mem, or look for what grows.",
        (f"{each('oom_kills_total')} > 0", _SHOWN), w=12),
)  # fmt: skip

GPU = row("GPUs",
    lines("Utilisation by GPU", "Share of the time in which each GPU that a chosen job holds was in use; the twenty that were in use most in the time shown. In use is not yet used well: one small kernel at a time counts in full.",
        (f"{each('gpu_utilization_ratio', _GPU)} and {_most('gpu_utilization_ratio', _GPU, 20)}", "{{node}} {{gpu}}: {{jobid}} {{user}}"), unit="percentunit", ceiling=1, w=12),
    lines("Memory by GPU", "Memory of each GPU that is in use by the job (by anybody, where the driver does not tell by whom); the twenty that had most in the time shown.",
        (f"{each('gpu_memory_bytes', _GPU)} and {_most('gpu_memory_bytes', _GPU, 20)}", "{{node}} {{gpu}}: {{jobid}} {{user}}"), unit="bytes", w=12),
    table("Who holds GPUs idle", "GPUs that a chosen job holds and on which it has no process now, with what the GPU does all the same. A job that has just begun, or is ending, may be here for a moment; one that stays should be asked why it wanted the GPU.",
        Col("memory of the GPU", f"{each('gpu_memory_total_bytes', _GPU)} and ({_NOT_USED})", unit="bytes", width=150),
        Col("power", f"{each('gpu_power_watts', _GPU)} and ({_NOT_USED})", unit="watt", width=90),
        Col("in use by anybody", f"{each('gpu_utilization_ratio', _GPU)} and ({_NOT_USED})", unit="percentunit", width=150),
        Col("jobs that hold it", f"{each('gpu_jobs', _GPU)} and ({_NOT_USED})", width=140),
        labels="jobid user node gpu model uuid", widths={"jobid": 110, "user": 130, "node": 130, "gpu": 70}, w=16,
    ),
    areas("GPUs by what is done with them", "GPUs of the chosen nodes: used by a job that holds them, held and not used, and held by nobody. The second is what others could have had.",
        (f"sum({_GPUS}(slurm_gpu_jobs{{NODE}}) > bool 0) - (sum(min by (node, uuid) (slurm_job_gpu_held_idle{{NODE}})) or vector(0))", "used"),
        ("sum(min by (node, uuid) (slurm_job_gpu_held_idle{NODE})) or vector(0)", "held idle"),
        (f"sum({_GPUS}(slurm_gpu_jobs{{NODE}}) == bool 0)", "free"),
        colours={"/^used$/": BLUE, "/^held idle$/": ORANGE, "/^free$/": GREEN},
    ),
    areas("Power", "Power that the GPUs of the chosen jobs draw, by model.",
        ("sum by (model) (max by (node, uuid, model) (slurm_job_gpu_power_watts{JOB}))", "{{model}}"), unit="watt"),
    lines("GPUs that are slowed down", "GPUs of the chosen nodes that are slowed down now, by why. Thermal ones are the cooling's; a power cap is somebody's setting. One that has nothing to do is not counted.",
        ('sum by (reason) (max by (node, uuid, reason) (slurm_gpu_throttled{NODE,reason!="gpu_idle"}))', "{{reason}}")),
    lines("Errors of GPUs", "Errors that the drivers of the chosen nodes' GPUs told (XID) since the agent began, and errors of memory that could not be corrected. Drain a node whose line goes up.",
        (f"{_GPUS}(slurm_gpu_xid_errors_total{{NODE}}) > 0", "XID {{node}} {{uuid}}"),
        (f'{_GPUS}(slurm_gpu_ecc_errors_total{{NODE,kind="uncorrected"}}) > 0', "memory {{node}} {{uuid}}")),
)  # fmt: skip

IO = row("Input and output",
    lines("Bytes per second", "What the processes of all chosen jobs together read from and wrote to disks and file servers; and the same as their cgroups count it, of block devices of the node alone.",
        (f"sum({pace('read_bytes_total')})", "read"),
        (f"sum({pace('written_bytes_total')})", "written"),
        (f"sum({pace('device_read_bytes_total')})", "read from devices"),
        (f"sum({pace('device_written_bytes_total')})", "written to devices"),
        unit="Bps",
    ),
    lines("Calls per second", "Calls of read and write by the processes of all chosen jobs together. Many calls for few bytes keep a file system busy with nothing: read and write in larger pieces.",
        (f"sum({pace('reads_total')})", "reads"), (f"sum({pace('writes_total')})", "writes"), unit="ops"),
    lines("Network", "Bytes received and sent per second by chosen jobs that have a network of their own; of a shared one the kernel does not tell whose they are.",
        (f"sum({pace('network_received_bytes_total')})", "received"), (f"sum({pace('network_sent_bytes_total')})", "sent"), unit="Bps"),
    lines("Reading by job", "Bytes per second that each chosen job reads on each node: the ten that read most in the time shown.",
        (f"{pace('read_bytes_total')} and {_fastest('read_bytes_total')}", _SHOWN), unit="Bps"),
    lines("Writing by job", "Bytes per second that each chosen job writes on each node: the ten that wrote most in the time shown.",
        (f"{pace('written_bytes_total')} and {_fastest('written_bytes_total')}", _SHOWN), unit="Bps"),
    lines("Calls by job", "Calls of read and write per second of each chosen job on each node: the ten with the most in the time shown.",
        (f"{pace('reads_total')} + {pace('writes_total')} and topk(10, {pace('reads_total', over='[$__range] @ end()')} + {pace('writes_total', over='[$__range] @ end()')})", _SHOWN), unit="ops"),
)  # fmt: skip

PROCESSES = row("Processes",
    lines("Processes and threads", "Processes of all chosen jobs, their threads, and the CPUs that they may use. Threads that want to run and outnumber the CPUs stand in each other's way: set OMP_NUM_THREADS.",
        (f"sum({each('processes')})", "processes"), (f"sum({each('threads')})", "threads"), (f"sum({_CPUS})", "CPUs")),
    lines("Threads per CPU by job", "Threads of each chosen job for each CPU that it may use: the ten with the most threads in the time shown.",
        (f"{each('threads')} / {_CPUS} and {_most('threads')}", _SHOWN), unit="none"),
    lines("Open files", "Files that the chosen jobs have open, all their descriptors (pipes and sockets too), and dead processes that nobody has reaped.",
        (f"sum({each('open_files')})", "files"), (f"sum({each('open_descriptors')})", "descriptors"), (f"sum({each('zombies')})", "zombies")),
    table("Programs", "What the chosen jobs run, by the kernel's name for it: the programs with the most processor time of each job, the rest as `other`. Time is that of processes which are there now and of children that they have reaped.",
        Col("processes", each("program_processes", f"{_JOB}, program"), width=110),
        Col("threads", each("program_threads", f"{_JOB}, program"), width=110),
        Col("memory", each("program_memory_rss_bytes", f"{_JOB}, program"), unit="bytes", width=120),
        Col("CPU time", each("program_cpu_seconds", f"{_JOB}, program"), unit="s", width=130),
        labels="jobid user node program", sort="-CPU time", widths={"jobid": 110, "user": 130, "node": 130}, h=9,
    ),
)  # fmt: skip


def _waited(kind: str) -> Asked:
    worst = pace("pressure_seconds_total", f"{_JOB}, resource, kind").replace("{JOB", f'{{JOB,kind="{kind}"')
    return f"max by (resource) ({worst})", f"{{{{resource}}}}, {kind}"


PRESSURE = row("Pressure",
    lines("Waiting for resources", "Share of the time in which some, or all (full), tasks of a chosen job waited for a CPU, for memory or for input and output: of the job on the node where that is most. Memory above a few percent means that the job fights for its pages.",
        _waited("some"), _waited("full"), unit="percentunit", ceiling=1, w=12),
    bars("Who waits most", "The ten chosen jobs that wait most now, and for what. CPU: more threads than cores. Memory: too little of it. io: the file system.",
        (f"topk(10, {pace('pressure_seconds_total', f'{_JOB}, resource, kind')})".replace("{JOB", '{JOB,kind="some"'), "{{resource}} {{jobid}} {{user}} {{node}}"), colours=levels(BLUE, (0.2, YELLOW), (0.5, RED)), ceiling=1, w=12),
)  # fmt: skip


def _traced(metric: str) -> str:
    return f"max by (jobid, hostname, username) (slurm_proc_{metric}{{TRACED}})"


def _allocated(metric: str) -> str:
    """Of the traced jobs of the chosen users: the series itself knows no user."""
    return f"max by (jobid) (slurm_job_{metric}{{JOBID}}) and on (jobid) slurm_proc_cpu_usage{{TRACED}}"


TRACED = row("Traced processes",
    lines("Traced cores and allocation", "Cores that the traced processes of the chosen jobs use (slurm_proc_cpu_usage / 100), beside the CPUs that these jobs hold on all of their nodes. Where only some tasks are traced, only those are in the first.",
        (f"sum({_traced('cpu_usage')}) / 100", "in use"), (f"sum({_allocated('cpu_alloc')})", "allocated"), unit="none"),
    lines("Traced memory and allocation", "Resident memory of the traced processes of the chosen jobs, beside the memory that these jobs hold on all of their nodes.",
        (f"sum({_traced('mem_usage')})", "in use"), (f"sum({_allocated('mem_alloc')})", "allocated"), unit="bytes"),
    lines("Traced cores by job", "Cores that the traced processes of each chosen job use on each host.",
        (f"{_traced('cpu_usage')} / 100", "{{jobid}} {{username}} {{hostname}}"), unit="none"),
)  # fmt: skip


def _agent(metric: str) -> str:
    return f"max by (node) (slurm_agent_{metric}{{NODE}})"


AGENTS = row("Agents",
    lines("Agents that answer", "Agents of the chosen nodes that Prometheus scrapes or gets pushed, and those of them whose last look is not older than two minutes. A gap between the two is agents that hang.",
        ("count(max by (node) (slurm_agent_info{NODE}))", "answer"), (f"sum(time() - {_agent('timestamp_seconds')} < bool 120)", "look")),
    lines("Time of a look", "Seconds that the last look at a node's jobs took, of the ten nodes on which looks took longest in the time shown. It grows with the number of processes; a GPU driver that hangs shows here first.",
        (f"{_agent('last_seconds')} and topk(10, max by (node) (sum_over_time(slurm_agent_last_seconds{{NODE}}[$__range] @ end())))", "{{node}}"), unit="s"),
    lines("Unreadable files", "Files of the kernel per second that the agents of the chosen nodes could not read, by why. permission: the agent lacks a capability (docs/agent.md), and what it may not read is absent.",
        ("sum by (why) (max by (node, why) (rate(slurm_agent_unreadable_total{NODE}[$__rate_interval])))", "{{why}}"), unit="none"),
    table("Agents of nodes", "The agents that Prometheus hears of: how many jobs they see, how old their last look is and what it took, and how many cgroups of jobs are left there without a process. Those want an epilog that clears them (docs/epilog.md).",
        Col("jobs", "max by (node, version, cgroup) (slurm_agent_info{NODE}) * on (node) group_left () " + _agent("jobs"), width=80),
        Col("age", f"time() - {_agent('timestamp_seconds')}", unit="s", width=110),
        Col("last look", _agent("last_seconds"), unit="s", width=110),
        Col("leftover cgroups", _agent("leftover_cgroups"), width=140),
        labels="node version cgroup", widths={"node": 150}, w=12,
    ),
    bars("Leftover cgroups", "The ten chosen nodes with the most cgroups of jobs in which there is no process. Each keeps memory of the kernel; an epilog clears them.",
        (f"topk(10, {_agent('leftover_cgroups')})", "{{node}}"), colours=levels(GREEN, (1, YELLOW), (100, RED)), w=6),
    bars("GPU drivers that answer", "Nodes whose driver of GPUs answered at the last look, by driver, as a part of all that have one. Below 1, a driver hangs or is gone: slurm_agent_gpu_driver_up says where.",
        ("avg by (driver) (max by (node, driver) (slurm_agent_gpu_driver_up{NODE}))", "{{driver}}"), colours=levels(RED, (1, GREEN)), ceiling=1, w=6),
)  # fmt: skip

ROWS = (NOW, CPU, MEMORY, GPU, IO, PROCESSES, PRESSURE, TRACED, AGENTS)
