# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - a row of the table of works is one line
"""What people run: patterns of work, and the daily and weekly rhythm in which they submit it."""

from __future__ import annotations

from dataclasses import dataclass

from slurmscope.demo.cluster import COURSE, DAY, HOUR

# Submissions by hour of the local day, as a part of those in the busiest one.
_HOURS = (
    *(0.22, 0.18, 0.15, 0.14, 0.14, 0.16, 0.22, 0.34),
    *(0.62, 0.90, 1.00, 0.98, 0.74, 0.92, 1.00, 0.97),
    *(0.88, 0.68, 0.46, 0.38, 0.36, 0.34, 0.28, 0.20),
)
_DAYS = (1.0, 1.0, 1.0, 1.0, 1.0, 0.55, 0.55)
_UTC_OFFSET = HOUR  # the cluster stands where it is one hour later, the whole year


def rhythm(now: int) -> float:
    """How busy people are at a moment, from 0 to 1."""
    local = now + _UTC_OFFSET
    return _HOURS[local // HOUR % 24] * _DAYS[(local // DAY + 3) % 7]


MEAN_RHYTHM = sum(_HOURS) / 24 * sum(_DAYS) / 7


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of job that an account submits. Where several values are given, each submission has one of them."""

    account: str
    names: tuple[str, ...]  # {n} stands for a number
    pool: str  # the kind of node that it mostly uses
    share: float  # its weight in the demand for that pool
    partitions: tuple[str, ...]
    cpus: tuple[int, ...]  # on each node
    memory: int  # MiB for each CPU
    hours: tuple[float, ...]  # time limit
    use: float  # the part of the limit that a job runs, in the mean
    nodes: tuple[int, ...] = (1,)
    gpu: str = ""
    gpus: tuple[int, ...] = (0,)  # on each node
    array: tuple[int, ...] = (1,)  # tasks; 1: no array
    throttle: int = 0  # how many tasks run at a time
    chain: tuple[int, ...] = (1,)  # jobs that each wait for the one before
    qos: str = "normal"
    steady: bool = False  # submitted by a pipeline, which does not sleep
    nightly: float = 0.0  # the part that is to begin in the evening
    licence: tuple[str, int] | None = None
    reservation: str | None = None
    feature: str | None = None

    @property
    def cost(self) -> float:
        """What one submission takes in the mean: CPU-hours, or GPU-hours where there are GPUs."""
        size = _mean(self.gpus) if self.gpus != (0,) else _mean(self.cpus)
        many = _mean(self.array) * _mean(self.chain)
        return size * _mean(self.nodes) * many * _mean(self.hours) * self.use


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)


_CPU, _GPU = ("cpu",), ("gpu",)

WORKS = (
    # MPI over whole nodes
    Work("astro", ("nbody_{n}", "gadget4-L{n}"), "cpu", 0.12, _CPU, (64,), 3900, (12, 24, 24, 48), 0.55, (4, 8, 8, 12), feature="ib"),
    Work("climate", ("icon_nwp_{n}", "icon-atm.r2b{n}"), "cpu", 0.14, _CPU, (64,), 3900, (6, 8, 12), 0.7, (4, 6, 8), chain=(1, 2, 4), steady=True, feature="ib"),
    Work("cfd", ("foamRun-{n}", "motorBike_v{n}"), "cpu", 0.09, _CPU, (64,), 3800, (8, 12, 24), 0.6, (2, 3, 4, 6), feature="ib"),
    Work("cfd", ("fluent_wing{n}",), "cpu", 0.02, _CPU, (32, 64), 3800, (6, 12), 0.6, (1, 2), licence=("ansys", 8)),
    Work("matsci", ("vasp_relax_{n}", "qe_scf.{n}"), "cpu", 0.12, _CPU, (32, 64, 64), 3900, (12, 24), 0.5, (1, 1, 2), qos="high"),
    Work("matsci", ("vasp_md_{n}",), "cpu", 0.08, _CPU, (64,), 3900, (24, 48), 0.6, (1, 2)),
    # one node or less, many at a time
    Work("matsci", ("phonopy-{n}",), "cpu", 0.07, _CPU, (16,), 3000, (4, 6), 0.6, array=(12, 24, 48)),
    Work("qchem", ("orca_opt_{n}", "g16-ts{n}", "crest_{n}"), "cpu", 0.08, _CPU, (8, 12, 16), 6000, (24, 48, 72), 0.4),
    Work("qchem", ("ccsd_t_{n}", "casscf{n}"), "cpu", 0.05, ("long",), (16, 32), 7000, (168, 240, 336), 0.35),
    Work("qchem", ("conformers_{n}",), "cpu", 0.04, ("cpu", "long"), (8,), 3500, (8, 12), 0.5, array=(30, 60, 100), throttle=32),
    Work("climate", ("era5_regrid", "cmip6-post_{n}"), "cpu", 0.05, _CPU, (8,), 5000, (6, 8), 0.55, array=(31, 60, 90), nightly=0.3),
    Work("astro", ("healpix_map", "mcmc_chain_{n}"), "cpu", 0.05, _CPU, (4, 8), 3000, (8, 12), 0.6, array=(16, 32, 48), throttle=40),
    Work("genomics", ("bwa-mem_{n}", "gatk_hc_{n}"), "cpu", 0.06, _CPU, (8, 16), 4000, (6, 8, 12), 0.45, array=(24, 36, 48), steady=True),
    Work("genomics", ("nf-STAR_({n})", "nf-SALMON_({n})", "nf-FASTQC_({n})"), "cpu", 0.05, _CPU, (8, 12), 5000, (6, 8), 0.5, steady=True),
    Work("imaging", ("fmriprep_sub-{n}",), "cpu", 0.05, _CPU, (8,), 5000, (12, 16), 0.5, array=(16, 30, 48), throttle=32),
    Work("imaging", ("matlab_glm_{n}",), "cpu", 0.01, _CPU, (4,), 4000, (6, 8), 0.5, array=(10, 20), licence=("matlab", 1)),
    Work("economics", ("abm_sweep", "bootstrap_{n}"), "cpu", 0.02, _CPU, (4,), 3500, (6, 8, 12), 0.6, array=(40, 80, 120)),
    Work("economics", ("stata_{n}.do", "R_panel{n}"), "cpu", 0.02, _CPU, (4, 8), 7500, (12, 24), 0.4),
    # large memory
    Work("genomics", ("spades_asm{n}", "hifiasm_{n}"), "big", 0.55, ("bigmem",), (32, 64), 15_000, (24, 48), 0.5),
    Work("genomics", ("kraken2_{n}",), "big", 0.25, ("bigmem",), (16, 24), 20_000, (8, 12), 0.5, array=(4, 8, 12)),
    Work("economics", ("graph_census_{n}",), "big", 0.2, ("bigmem",), (32,), 15_000, (48, 96), 0.4),
    # GPUs
    Work("nlp", ("pretrain_7b_s{n}", "megatron-{n}"), "h100", 0.4, _GPU, (88,), 11_000, (48, 72), 0.6, (1, 2, 4), "h100", (8,), chain=(1, 1, 3), feature="ib"),
    Work("nlp", ("lora_ft_{n}", "dpo_run{n}"), "h100", 0.3, _GPU, (11, 22, 44), 10_000, (8, 12, 24), 0.5, gpu="h100", gpus=(1, 2, 4)),
    Work("cryoem", ("af3_batch{n}",), "h100", 0.15, _GPU, (11,), 10_000, (6, 8), 0.5, gpu="h100", gpus=(1,), array=(6, 12, 20)),
    Work("vision", ("diffusion_{n}",), "h100", 0.15, _GPU, (44, 88), 10_000, (12, 24), 0.6, gpu="h100", gpus=(4, 8)),
    Work("vision", ("train_vit_{n}", "ddp_resnet{n}"), "a100", 0.3, _GPU, (64,), 7700, (12, 24, 48), 0.5, (1, 1, 2), "a100", (4,)),
    Work("vision", ("sweep_lr_{n}",), "a100", 0.2, _GPU, (12, 16), 7000, (6, 8), 0.6, gpu="a100", gpus=(1,), array=(8, 16, 32), throttle=16),
    Work("cryoem", ("relion_refine3d_{n}", "cryosparc_P{n}"), "a100", 0.25, _GPU, (32, 64), 7500, (12, 24), 0.5, gpu="a100", gpus=(2, 4), steady=True),
    Work("climate", ("graphcast_{n}",), "a100", 0.1, _GPU, (16, 32), 7500, (12, 24), 0.5, gpu="a100", gpus=(1, 2)),
    Work("nlp", ("eval_mmlu_{n}", "embed_corpus_{n}"), "a100", 0.1, _GPU, (48, 60), 7000, (4, 6, 8), 0.5, gpu="a100", gpus=(1,)),
    Work("imaging", ("cellpose_{n}",), "a100", 0.05, _GPU, (8,), 7000, (4, 8), 0.5, gpus=(1,)),
    Work("robotics", ("isaac_ppo_{n}",), "l40s", 0.45, _GPU, (12, 16), 7000, (12, 24), 0.5, gpu="l40s", gpus=(1, 2)),
    Work("robotics", ("render_scene{n}",), "l40s", 0.25, _GPU, (16,), 7000, (2, 4), 0.6, gpu="l40s", gpus=(1,), array=(8, 16)),
    Work("imaging", ("nnunet_fold{n}",), "l40s", 0.3, _GPU, (16,), 7500, (24, 36), 0.5, gpu="l40s", gpus=(1,), array=(1, 5)),
    Work("robotics", ("jupyter", "jupyter-gpu"), "mig", 0.5, _GPU, (4, 8), 7000, (4, 8, 10), 0.6, gpu="a100_3g.20gb", gpus=(1,)),
    Work("economics", ("bert_tag_{n}",), "mig", 0.3, _GPU, (6, 8), 7000, (6, 12), 0.5, gpu="a100_3g.20gb", gpus=(1,), array=(2, 4)),
    Work("cryoem", ("interactive", "bash"), "mig", 0.2, _GPU, (4, 8), 7000, (4, 8), 0.5, gpu="a100_3g.20gb", gpus=(1,)),
    # short tries, and a course
    Work("cfd", ("test", "bash", "mesh_check"), "debug", 0.3, ("debug",), (4, 8, 16), 3000, (0.25, 0.5, 1), 0.4, qos="debug"),
    Work("nlp", ("debug_tok", "interactive"), "debug", 0.3, ("debug",), (4, 8), 4000, (0.5, 1), 0.5, gpu="a100_3g.20gb", gpus=(1,), qos="debug"),
    Work("climate", ("icon_smoke_{n}",), "debug", 0.4, ("debug",), (16, 32), 3000, (0.25, 0.5), 0.5, qos="debug"),
    Work("hpc101", ("exercise_{n}", "hello_mpi", "bench_stream"), "course", 1.0, _CPU, (4, 8, 16), 3500, (0.5, 1, 2), 0.35, reservation=COURSE),
)  # fmt: skip

# CPU- or GPU-hours that people would use each hour, were there no queue: more than there is, but for tries
DEMAND = {
    "cpu": 8192 * 1.8,
    "big": 1024 * 1.1,
    "a100": 128 * 1.75,
    "h100": 128 * 1.5,
    "l40s": 48 * 1.5,
    "mig": 32 * 1.0,
    "debug": 60.0,
    "course": 70.0,
}
