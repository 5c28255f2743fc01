# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Records what NVML tells while a GPU is idle, busy, and held without work, beside what nvidia-smi says of it.

`python3 tools/gpu_recording.py OUTDIR [--vendor DIR]`, on a machine with an NVIDIA GPU. It needs nothing but Python,
and pynvml and msgspec, which may lie in DIR/cp<version> where they cannot be installed (`pip install --target`). It
changes nothing about the card: where MIG is on already, its instances are read too. It fails if we and nvidia-smi do
not agree.

- recording.json is for tests/recordings/gpu, with made-up UUIDs;
- nvidia-smi.xml is the whole of `nvidia-smi -q -x`, to look at;
- table.txt is what is printed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
LOAD_BYTES = 2 << 30
FIELDS = (
    "index",
    "uuid",
    "name",
    "utilization.gpu",
    "utilization.memory",
    "memory.used",
    "memory.total",
    "power.draw",
    "enforced.power.limit",
    "temperature.gpu",
    "clocks.sm",
    "clocks.mem",
    "ecc.errors.corrected.volatile.total",
    "ecc.errors.uncorrected.volatile.total",
)
# it was renamed; the name in the recording is the newer one
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
APPS = ("pid", "used_memory", "gpu_uuid")


# --- a load without any framework -------------------------------------------------------------------------------------

PTX = """
.version {version}
.target {target}
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 rounds)
{{
  .reg .pred %p<2>;
  .reg .f32 %f<3>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [rounds];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, 0;
  mov.f32 %f1, 0f3F800000;
  mov.f32 %f2, 0f3F000000;
LOOP:
  fma.rn.f32 %f1, %f1, %f2, %f2;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra LOOP;
  st.global.f32 [%rd2], %f1;
  ret;
}}
"""


class Cuda:
    """As much of libcuda as a load needs."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self._device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self._device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *args: Any) -> None:
        if code := getattr(self._lib, name)(*args):
            raise RuntimeError(f"{name}: CUDA error {code}")

    def allocate(self, size: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.call("cuMemsetD8_v2", address, ctypes.c_ubyte(1), ctypes.c_size_t(size))
        return address

    def kernel(self) -> ctypes.c_void_p:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, self._device)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, self._device)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        # a driver compiles what is written for older cards, but not for ever
        choices = (("8.0", f"sm_{major.value}{minor.value}"), ("7.0", "sm_75"), ("6.0", "sm_52"))
        for version, target in choices:
            text = PTX.format(version=version, target=target).encode()
            if not self._lib.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(text)):
                break
        else:
            raise RuntimeError("cuModuleLoadData: the driver takes none of our kernels")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"spin"))
        return function

    def launch(self, function: ctypes.c_void_p, address: ctypes.c_uint64, rounds: int) -> None:
        values = (address, ctypes.c_uint32(rounds))
        pointers = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in values))
        self.call("cuLaunchKernel", function, 1024, 1, 1, 256, 1, 1, 0, None, pointers, None)
        self.call("cuCtxSynchronize")


def load(busy: bool, seconds: float) -> None:
    """What the child process does: memory, and work if it is to be busy. It ends by itself if nobody ends it."""
    cuda = Cuda()
    address = cuda.allocate(LOAD_BYTES)
    function = cuda.kernel() if busy else None
    print("ready", flush=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if function is None:
            time.sleep(0.1)
        else:
            cuda.launch(function, address, 1 << 20)


@contextmanager
def loaded(kind: str) -> Iterator[int]:
    """A child that holds the GPU, and its process id."""
    command = [sys.executable, __file__, "--load", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            if child.stdout.readline().strip() != "ready":
                raise SystemExit(f"the load ({kind}) could not be started: see above")
            yield child.pid
        finally:
            child.terminate()


# --- what NVML is asked, and answers ----------------------------------------------------------------------------------


class Recorder:
    """pynvml, and a list of all that it is asked."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._labels: dict[int, str] = {}
        self.calls: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._nvml, name)
        if not name.startswith("nvml") or not callable(found) or isinstance(found, type):
            return found

        def asked(*args: Any, **named: Any) -> Any:
            call: dict[str, Any] = {"function": name, "args": [self._plain(one) for one in args]}
            if named:
                call["named"] = named
            self.calls.append(call)
            try:
                result = found(*args, **named)
            except Exception as error:
                call["error"] = type(error).__name__
                raise
            call["result"] = self._plain(result)
            return result

        return asked

    def _plain(self, value: Any) -> Any:
        """As JSON has it: structures as their fields, handles by a label."""
        if isinstance(value, ctypes.Structure):
            names = [field[0] for field in value._fields_]
            return {"struct": {name: self._plain(getattr(value, name)) for name in names}}
        if isinstance(value, ctypes._Pointer):
            address = ctypes.cast(value, ctypes.c_void_p).value or 0
            return {"handle": self._labels.setdefault(address, f"handle-{len(self._labels)}")}
        if isinstance(value, list | tuple):
            return [self._plain(one) for one in value]
        if hasattr(value, "__dict__"):
            return {"struct": {name: self._plain(one) for name, one in vars(value).items()}}
        return value


def smi(*options: str) -> str:
    try:
        told = subprocess.run(["nvidia-smi", *options], capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError as error:
        raise SystemExit("there is no nvidia-smi here to compare with") from error
    return told.stdout if told.returncode == 0 else ""


def rows(fields: tuple[str, ...], option: str) -> list[dict[str, str]]:
    text = smi(f"--query-{option}={','.join(fields)}", "--format=csv,noheader,nounits")
    lines = [line.split(", ") for line in text.splitlines() if line.strip()]
    return [dict(zip(fields, (one.strip() for one in line), strict=True)) for line in lines]


def smi_gpus() -> list[dict[str, str]]:
    for reasons in REASONS:
        if found := rows((*FIELDS, reasons), "gpu"):
            return [{REASONS[0]: one.pop(reasons), **one} for one in found]
    return rows(FIELDS, "gpu")


def moment(name: str, driver: Any, recorder: Recorder, pid: int | None) -> dict[str, Any]:
    """One read of ours, and nvidia-smi's of the same second."""
    import msgspec  # noqa: PLC0415 - may be in the folder that is given

    recorder.calls = []
    began = time.perf_counter()
    gpus = driver.read()
    seconds = time.perf_counter() - began
    return {
        "name": name,
        "load_pid": pid,
        "seconds": seconds,
        "calls": recorder.calls,
        "trouble": driver.trouble,
        "ours": msgspec.to_builtins(gpus),
        "smi": {"gpus": smi_gpus(), "apps": rows(APPS, "compute-apps")},
    }


def moments(recorder: Recorder) -> Iterator[dict[str, Any]]:
    from slurmscope.node.nvidia import Nvidia  # noqa: PLC0415 - not before the path is set

    driver = Nvidia(recorder)
    for _ in range(2):
        yield moment("idle", driver, recorder, None)
        time.sleep(1)
    with loaded("busy") as pid:
        for _ in range(4):
            time.sleep(3)
            yield moment("loaded", driver, recorder, pid)
    time.sleep(2)
    with loaded("held") as pid:
        for _ in range(3):
            time.sleep(3)
            yield moment("held", driver, recorder, pid)
    time.sleep(3)
    yield moment("after", driver, recorder, None)
    driver.close()


def cost(nvml: Any) -> list[float]:
    """Seconds of whole reads, without recording."""
    from slurmscope.node.nvidia import Nvidia  # noqa: PLC0415 - as above

    driver = Nvidia(nvml)
    spent = []
    for _ in range(21):
        began = time.perf_counter()
        driver.read()
        spent.append(time.perf_counter() - began)
    driver.close()
    return spent


# --- side by side -----------------------------------------------------------------------------------------------------


def figure(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:  # [N/A]
        return None


def near(ours: float | None, theirs: float | None, share: float, least: float) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return abs(ours - theirs) <= max(least, share * abs(theirs))


def pairs(ours: Mapping[str, Any], theirs: Mapping[str, str]) -> Iterator[tuple[str, Any, Any, bool | None]]:
    """What it is, ours, nvidia-smi's, and whether they agree; None where they need not: it changes by the second."""

    def scaled(key: str, by: float) -> float | None:
        return None if ours[key] is None else ours[key] / by

    yield "uuid", ours["uuid"], theirs["uuid"], ours["uuid"] == theirs["uuid"]
    yield "name", ours["model"], theirs["name"], ours["model"] == theirs["name"]
    total, used, heat = figure(theirs["memory.total"]), figure(theirs["memory.used"]), figure(theirs["temperature.gpu"])
    mib = scaled("memory_total", MIB)
    yield "memory total, MiB", mib, total, near(mib, total, 0, 1)
    mib = scaled("memory_used", MIB)
    yield "memory used, MiB", mib, used, near(mib, used, 0.02, 16)
    yield "temperature, °C", ours["temperature"], heat, near(ours["temperature"], heat, 0, 2)
    watts = figure(theirs["enforced.power.limit"])
    yield "power limit, W", ours["power_limit"], watts, near(ours["power_limit"], watts, 0, 0.01)
    for key, kind in (("ecc_corrected", "corrected"), ("ecc_uncorrected", "uncorrected")):
        count = figure(theirs[f"ecc.errors.{kind}.volatile.total"])
        yield f"ECC {kind}", ours[key], count, near(ours[key], count, 0, 0)
    yield "utilisation, %", scaled("utilization", 0.01), figure(theirs["utilization.gpu"]), None
    yield "memory utilisation, %", scaled("memory_utilization", 0.01), figure(theirs["utilization.memory"]), None
    yield "power, W", ours["power"], figure(theirs["power.draw"]), None
    yield "SM clock, MHz", scaled("clock", 1e6), figure(theirs["clocks.sm"]), None
    yield "memory clock, MHz", scaled("memory_clock", 1e6), figure(theirs["clocks.mem"]), None
    yield "throttled", ours["throttled"], theirs.get(REASONS[0]), None


def compared(one: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any, bool | None]]:
    theirs = {int(row["index"]): row for row in one["smi"]["gpus"]}
    wholes = [gpu for gpu in one["ours"] if gpu["instance"] is None]
    yield "GPUs", len(wholes), len(theirs), len(wholes) == len(theirs)
    for gpu in wholes:
        if gpu["index"] in theirs:
            yield from pairs(gpu, theirs[gpu["index"]])
    # a GPU that is divided lists the processes of its instances too
    told = {process["pid"]: process["memory"] for gpu in one["ours"] for process in gpu["processes"] or ()}
    apps = {int(row["pid"]): figure(row["used_memory"]) for row in one["smi"]["apps"]}
    # nvidia-smi lists those that compute, we those that draw as well
    yield "processes", sorted(told), sorted(apps), apps.keys() <= told.keys()
    for pid in sorted(told.keys() & apps.keys()):
        mib = None if told[pid] is None else told[pid] / MIB
        yield f"memory of {pid}, MiB", mib, apps[pid], near(mib, apps[pid], 0.02, 16)
    if one["load_pid"] is not None:
        yield "pid of the load is told", one["load_pid"] in told, one["load_pid"] in apps, None


def table(taken: list[dict[str, Any]]) -> tuple[list[str], bool]:
    lines, agree = [], True
    for one in taken:
        lines.append(f"\n{one['name']}: one read took {one['seconds'] * 1000:.1f} ms. {one['trouble']}")
        for what, ours, theirs, same in compared(one):
            mark = {True: "ok", False: "NOT THE SAME", None: ""}[same]
            shown = f"{ours:.1f}" if isinstance(ours, float) else str(ours)
            lines.append(f"  {what:<26} {shown:<44} | {theirs!s:<44} {mark}")
            agree = agree and same is not False
        shares = [process for gpu in one["ours"] for process in gpu["processes"] or ()]
        lines.append(f"  ours alone: processes {shares}, energy {[gpu['energy'] for gpu in one['ours']]} J")
    return lines, agree


# --- the whole --------------------------------------------------------------------------------------------------------


def anonymous(text: str, taken: list[dict[str, Any]]) -> str:
    """A card can be known by its UUID, and tests need none that exists."""
    for number, uuid in enumerate(sorted({gpu["uuid"] for one in taken for gpu in one["ours"]})):
        kind = uuid.partition("-")[0]
        text = text.replace(uuid, f"{kind}-{number:08x}-0000-4000-8000-000000000000")
    return text


def record(folder: Path, nvml: Any) -> bool:
    from slurmscope.node.driver import AbsentError, DriverError  # noqa: PLC0415 - not before the path is set

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nvidia-smi.xml").write_text(smi("-q", "-x"))
    try:
        taken = list(moments(Recorder(nvml)))
        spent = cost(nvml)
    except AbsentError as error:
        raise SystemExit(f"no NVIDIA GPU can be read here: {error}") from error
    except DriverError as error:
        raise SystemExit(f"NVML does not work here: {error}") from error
    lines, agree = table(taken)
    middle = sorted(spent[1:])[len(spent[1:]) // 2]
    lines.append(f"\none read: {middle * 1000:.1f} ms in the middle of 20, {max(spent[1:]) * 1000:.1f} ms at most")
    lines.append("we and nvidia-smi agree" if agree else "WE AND nvidia-smi DO NOT AGREE")
    print("\n".join(lines))
    (folder / "table.txt").write_text("\n".join(lines) + "\n")
    driver = rows(("driver_version",), "gpu")
    whole = {"driver": driver[0]["driver_version"] if driver else "", "load_bytes": LOAD_BYTES, "moments": taken}
    (folder / "recording.json").write_text(anonymous(json.dumps(whole, indent=1), taken) + "\n")
    return agree


def found_modules(vendor: Path | None) -> Any:
    sys.path.insert(0, str(ROOT / "src"))
    if vendor is not None:
        own = vendor / f"cp{sys.version_info.major}{sys.version_info.minor}"
        sys.path.insert(1, str(own if own.is_dir() else vendor))
    try:
        import msgspec  # noqa: F401, PLC0415 - may be in the folder that is given
        import pynvml  # noqa: PLC0415
    except ImportError as error:
        raise SystemExit(f"{error}: pip install --target DIR msgspec nvidia-ml-py, then --vendor DIR") from error
    return pynvml


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", nargs="?", type=Path, help="where to write")
    options.add_argument("--vendor", type=Path, help="where pynvml and msgspec are")
    options.add_argument("--load", choices=("busy", "held"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.load:
        load(given.load == "busy", 60)
        return 0
    if given.folder is None:
        options.error("where to write?")
    print(f"Python {platform.python_version()}, {platform.system()} {platform.release()}", flush=True)
    nvml = found_modules(given.vendor)
    print(smi() or "nvidia-smi does not work here", flush=True)
    return 0 if record(given.folder, nvml) else 1


if __name__ == "__main__":
    sys.exit(main())
