# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs of the lab in cgroups, each with one fault that is known, or none.

The lab's two nodes are one machine of a few cores. Jobs that keep cores busy take licences, five for a core, so that
no more of them run at a time than there are cores; the others use next to nothing.
"""

from __future__ import annotations

import msgspec
from lab.work import SCRATCH, command

SECONDS = 15
_LIGHT = 0.05  # of a core: enough not to be called idle


def work(seconds: float = SECONDS, folder: str = SCRATCH, **options: float) -> str:
    return command(folder, seconds=seconds, **options)


def light(**options: float) -> str:
    """Once it has what it holds it gives way to the others, and does later what it was kept from."""
    return f"exec {work(SECONDS, SCRATCH, duty=_LIGHT, nice=19, **options)}"


def busy(cores: float) -> str:
    return f"--licenses=matlab:{round(5 * cores)}"


# Those that take more than one CPU wait in a queue of their own, or the others would wait behind them.
NODE = ("-c2", "-pall")
NODES = ("-N2", "-n2", "-pall")


# Two programs, each on a core of its own choice: `$first` and `$last` are those of the job.
CORES = "c=$(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status); first=${c%%[-,]*}; last=${c##*[-,]}"


def pair(one: tuple[str, float], other: tuple[str, float]) -> str:
    lines = [
        f"SLURM_PROCID={at} taskset -c ${core} {work(duty=duty)} &" for at, (core, duty) in enumerate((one, other))
    ]
    return "\n".join([CORES, *lines, "wait"])


def bound(count: int) -> str:
    """So many processes on one core of the job's."""
    return f"{CORES}\nexec taskset -c $first {work(burners=count, duty=0.5)}"


def by_node(first: str, second: str) -> str:
    return f"exec srun sh -c 'test $SLURM_NODEID = 1 && exec {second}; exec {first}'"


class Behaviour(msgspec.Struct, frozen=True):
    name: str
    script: str
    options: tuple[str, ...] = ()
    finding: str = ""  # the one rule that fires; none where it is empty
    mem: int = 200  # MiB on each node
    memory: int = 0  # of that, what it is known to use on all


BEHAVIOURS = (
    # --- nodes ---
    Behaviour("one-of-two-nodes", f"exec {work(duty=0.9)}", (*NODES, busy(1)), "zero_cpu"),
    Behaviour(
        "a-lazy-node",
        by_node(work(duty=0.9), work(duty=0.02)),
        (*NODES, busy(1)),
        "idle_node",
    ),
    Behaviour(
        "uneven-nodes",
        # as much memory as one node does not have; to touch it takes some seconds on some machines
        by_node(work(25, duty=0.95, memory=1700), work(25, duty=0.15, memory=1700)),
        (*NODES, busy(1.4)),
        "node_imbalance",
        mem=2000,
        memory=3400,
    ),
    # --- cores and threads ---
    Behaviour("sleeps", f"exec sleep {SECONDS}", NODE, "zero_cpu"),
    Behaviour("hardly-busy", f"exec {work(burners=2, duty=0.2)}", (*NODE, busy(0.4)), "low_cpu"),
    Behaviour("one-thread", f"exec {work(burners=1, duty=1)}", (*NODE, busy(1)), "serial"),
    Behaviour("waits-in-one-thread", f"exec {work(duty=0.6)}", (*NODE, busy(0.6)), "few_threads"),
    Behaviour("one-core-of-two", pair(("first", 0.35), ("first", 0.35)), (*NODE, busy(2)), "idle_cores"),
    Behaviour("four-bound-to-one-core", bound(4), (*NODE, busy(2)), "serial"),
    Behaviour("uneven-cores", pair(("first", 1), ("last", 0.26)), (*NODE, busy(2)), "core_imbalance"),
    # long enough to fill one bucket of a course, wherever that begins
    Behaviour("bursts", f"exec {work(80, burners=2, user=32)}", (*NODE, busy(2), "-t", "3"), "cpu_bursts"),
    Behaviour("twenty-threads", f"exec {work(spinners=20, duty=0.2)}", ("-w", "n1", busy(1)), "too_many_threads"),
    Behaviour("twelve-processes", f"exec {work(burners=12, duty=0.2)}", ("-w", "n1", busy(1)), "oversubscribed"),
    # --- memory ---
    Behaviour("nearly-full", light(memory=465), finding="memory_close", mem=500, memory=465),
    Behaviour("memory-of-others", light(memory=300), finding="memory_request", mem=3400, memory=300),
    Behaviour("memory-unused", light(memory=300), finding="memory_unused", mem=2100, memory=300),
    Behaviour("too-large", f"sleep 2; exec {work(memory=500)}", finding="out_of_memory"),
    # --- files ---
    Behaviour("many-files", f"ulimit -n 2000; {light(files=1000)}", finding="small_files"),
    # several times what the rule asks for: a disk that is slow to take the data makes the job longer
    Behaviour("storm", f"exec {work(burners=1, system=1.5, bytes=480_000, calls=120_000)}", finding="metadata_storm"),
    Behaviour(
        "at-home",
        f"exec {command(seconds=SECONDS, burners=1, system=1, files=3, bytes=300 << 20, calls=300)}",
        finding="scratch",
    ),
    # --- GPUs: those of the lab have no driver, so that nobody knows what they did ---
    Behaviour("two-cpus-for-a-gpu", light(), (*NODE, "--gres=gpu:1"), "cores_per_gpu"),
    Behaviour("memory-of-two-gpus", light(memory=300), ("--gres=gpu:1",), "memory_per_gpu", mem=3400, memory=300),
    # --- time ---
    Behaviour("five-hours", light(), ("-t", "300"), "time_request"),
    # --- well ---
    Behaviour("well", f"exec {work(burners=2, duty=0.95, memory=300)}", (*NODE, busy(2)), mem=400, memory=300),
    Behaviour("well-on-one", light(memory=300), mem=400, memory=300),
)
"""They run side by side, in whatever order."""

SHORT = Behaviour("short", "sleep 1", finding="short_jobs")
FAILS = Behaviour("fails", "exit 1", finding="failing_again")
REDONE = Behaviour(
    "redone", "test ${SLURM_RESTART_COUNT:-0} -ge 2 && exit 1; sleep 600", ("--requeue",), "requeue_loop"
)
UNSEEN = Behaviour("unseen", f"exec {work(burners=2, duty=0.95)}", (*NODE, "-w", "n1"))
SLOW = Behaviour("slow", f"exec {work(600, duty=_LIGHT)}", ("-w", "n2"), "timeout")
SPREAD = Behaviour("spread", f"exec srun {work(duty=0.9)}", (*NODES, busy(2)), "cpu_fragments")
LOST = Behaviour("lost", f"exec {work(600, duty=_LIGHT)}", ("-w", "n2", "--no-requeue"), "node_failure")
