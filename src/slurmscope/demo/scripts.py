# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How the demo's jobs are submitted: the script that the owner of each would have written, and the command."""

from __future__ import annotations

from functools import lru_cache

from slurmscope.model import Job

SALLOC = frozenset({"interactive", "bash", "jupyter", "jupyter-gpu"})

_GIB, _MIB = 1 << 30, 1 << 20
_GPU_MODULES = "cuda/12.4 python/3.12"
# How a program is started, by how its name begins: the modules that it needs, and what follows on srun.
_STARTED = {
    "nbody": ("gcc/13 openmpi/5.0 hdf5/1.14", "./nbody --input initial.hdf5 --restart auto"),
    "gadget4": ("gcc/13 openmpi/5.0 gsl/2.7 fftw/3.3", "./Gadget4 param.txt 1"),
    "icon": ("intel/2024 openmpi/5.0 netcdf-fortran/4.6", "./icon namelists/atm.nml"),
    "foamRun": ("openfoam/12", "foamRun -solver incompressibleFluid -parallel"),
    "motorBike": ("openfoam/12", "foamRun -solver incompressibleFluid -parallel"),
    "fluent": ("ansys/2024R2", "fluent 3ddp -g -slurm -i wing.jou"),
    "vasp": ("intel/2024 vasp/6.4.3", "vasp_std"),
    "qe": ("quantum-espresso/7.3", "pw.x -npool 4 -in scf.in"),
    "phonopy": ("intel/2024 vasp/6.4.3 phonopy/2.26", "vasp_std"),
    "orca": ("orca/6.0", '"$(command -v orca)" opt.inp'),
    "g16": ("gaussian/16", "g16 ts.gjf"),
    "bwa-mem": ("bwa-mem2/2.2 samtools/1.20", 'bwa-mem2 mem -t "$SLURM_CPUS_PER_TASK" ref.fa "$item"'),
    "gatk": ("gatk/4.6", 'gatk HaplotypeCaller -R ref.fa -I "$item" -O "$item.g.vcf.gz"'),
    "fmriprep": ("apptainer/1.3", 'apptainer run fmriprep.sif bids out participant --participant-label "$item"'),
    "stata": ("stata/18", "stata-mp -b do main.do"),
    "R": ("r/4.4", "Rscript panel.R"),
    "pretrain": (_GPU_MODULES, "python -m train --config configs/7b.yaml --resume"),
    "megatron": (_GPU_MODULES, "python pretrain_gpt.py --use-checkpoint-args"),
    "lora": (_GPU_MODULES, "python finetune.py --lora-rank 16"),
    "train": (_GPU_MODULES, "python train.py --amp"),
    "sweep": (_GPU_MODULES, 'python train.py --lr "$item"'),
    "relion": ("relion/5.0", "relion_refine_mpi --o Refine3D/run --auto_refine --gpu"),
    "matlab": ("matlab/R2024b", 'matlab -batch "glm($SLURM_ARRAY_TASK_ID)"'),
    "nnunet": (_GPU_MODULES, "nnUNetv2_train 501 3d_fullres all --c"),
}


@lru_cache(maxsize=4096)
def program(name: str) -> str:
    """What a job by such a name starts with srun."""
    return name.removesuffix(".do").rstrip("0123456789()").rstrip("-_.(") or name


def submit_line(job: Job, array: str) -> str:
    """`array`: its tasks, where it is one."""
    if job.name in SALLOC:
        return " ".join(["salloc", *(f"--{option}" for option in _options(job) if not option.startswith("output="))])
    tasks = f"--array={array} " if array else ""
    return f"sbatch {tasks}--job-name={job.name} {program(job.name)}.sh"


@lru_cache(maxsize=4096)
def work_dir(user: str, account: str) -> str:
    return f"/project/{account}/{user}/runs"


def of(job: Job) -> str | None:
    """None for those who were given a shell."""
    if job.name in SALLOC:
        return None
    modules, command = _start(job)
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH --{option}" for option in (f"job-name={job.name}", *_options(job))),
        "",
        "set -euo pipefail",
        *((f"module purge && module load {modules}",) if modules else ()),
        "export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}",
        "",
    ]
    if job.array_id is not None:
        lines += ["# one task for each line", 'item=$(sed -n "${SLURM_ARRAY_TASK_ID}p" inputs.txt)', ""]
    return "\n".join([*lines, f"srun {command}", ""])


def _start(job: Job) -> tuple[str, str]:
    found = next((how for name, how in _STARTED.items() if job.name.startswith(name)), None)
    return found or ("gcc/13 python/3.12", f"./{program(job.name)}" + (' "$item"' if job.array_id is not None else ""))


def _options(job: Job) -> list[str]:
    nodes = max(1, job.nodes)
    gpus = sum(job.gpus.values()) // nodes
    tasks = gpus or (job.cpus // nodes if nodes > 1 else 1)  # of a node: one for each GPU, or MPI over whole nodes
    found = [f"account={job.account}", f"partition={job.partition}"]
    if job.qos != "normal":
        found.append(f"qos={job.qos}")
    found += [f"nodes={nodes}", f"ntasks-per-node={tasks}", f"cpus-per-task={max(1, job.cpus // nodes // tasks)}"]
    if job.memory is not None:
        found.append(f"mem={_memory(job.memory // nodes)}")
    found += [f"gpus-per-node={kind + ':' if kind else ''}{count // nodes}" for kind, count in job.gpus.items()]
    if job.time_limit is not None:
        found.append(f"time={_time(job.time_limit)}")
    for option, value in (
        ("constraint", job.features),
        ("licenses", job.licenses),
        ("reservation", job.reservation),
    ):
        if value:
            found.append(f"{option}={value}")
    return [*found, "output=logs/%x-%A_%a.out" if job.array_id is not None else "output=logs/%x-%j.out"]


def _memory(size: int) -> str:
    return f"{size // _GIB}G" if size % _GIB == 0 else f"{size // _MIB}M"


def _time(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock
