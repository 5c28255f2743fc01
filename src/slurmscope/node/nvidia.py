# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's GPUs, as NVML tells of them (the library that nvidia-smi uses; `pynvml` speaks to it).

Where MIG is on, a GPU is listed first as a whole (`instance` is None; power, temperature and errors are known of the
whole alone), then each of its instances as a GPU of its own. Jobs are given the instances, never the whole: whoever
adds up GPUs leaves out a GPU of whose `index` there are instances.

No privilege is needed, but for processes of other users on a GPU with MIG. Process ids are those that NVML gives, which
are the machine's: in a container of its own an agent cannot tell whose they are.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Iterable
from math import ceil
from pathlib import Path
from typing import Any

import msgspec

from slurmscope.measure import Gpu, GpuProcess
from slurmscope.node.driver import AbsentError, DriverError

_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
# Constants of NVML's interface, which never change. Older pynvml has not all of them by name.
_MEMORY_V2 = 0x02000028
_GPU_SENSOR = 0
_SM, _MEMORY = 1, 2
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE = 0
_XID = 0x8
_MIG_ON = 1
_MOST_EVENTS = 1000  # at a read; a card that is dying may tell of them faster than we read
_RENEWAL = 60.0  # how long NVML is kept after a GPU was lost: only a new start sees it again after its reset

_CARDS = "bus/pci/devices/*/vendor"
_NVIDIA = "0x10de"


class _Xids(msgspec.Struct):
    count: int = 0
    last: int | None = None


class Nvidia:
    """The driver. `nvml` is the module pynvml, or what stands in for it."""

    name = "nvidia"

    def __init__(self, nvml: Any = None, dev: Path = Path("/dev"), sys: Path = Path("/sys")) -> None:
        self.trouble = ""
        self._nvml = nvml
        self._dev = dev
        self._sys = sys
        self._since: float | None = None  # when NVML was started
        self._events: Any = None
        self._watched: set[str] = set()  # GPUs whose XID errors we are told of
        self._xids: dict[str, _Xids] = {}
        self._sampled: dict[str, int] = {}  # by GPU: NVML's time of the last sample of its processes

    # --- start and end ------------------------------------------------------------------------------------------------

    def read(self) -> list[Gpu]:
        self._start()
        nvml = self._nvml
        found: list[Gpu] = []
        lost: dict[int, str] = {}
        try:
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            self.close()
            raise DriverError(self._words(error)) from error
        self._take_events()
        for index in range(count):
            try:
                found += self._gpus(index, nvml.nvmlDeviceGetHandleByIndex(index))
            except nvml.NVMLError as error:
                lost[index] = self._words(error)
        self.trouble = "; ".join(f"GPU {index}: {why}" for index, why in lost.items())
        if lost and time.monotonic() - (self._since or 0) > _RENEWAL:
            self.close()
        return found

    def close(self) -> None:
        if self._since is None:
            return
        self._since = None
        events, self._events = self._events, None
        self._watched.clear()
        if events is not None:
            self._ask("nvmlEventSetFree", events)
        self._ask("nvmlShutdown")

    def _start(self) -> None:
        if self._since is not None:
            return
        if self._nvml is None:
            self._nvml = self._module()
        nvml = self._nvml
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            if isinstance(error, nvml.NVMLError_LibraryNotFound) and not self._loaded():
                raise AbsentError("there is no libnvidia-ml.so.1") from error
            if isinstance(error, nvml.NVMLError_DriverNotLoaded) and not self._card():
                raise AbsentError("there is no NVIDIA GPU") from error
            raise DriverError(self._words(error)) from error
        self._since = time.monotonic()
        try:
            self._events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            self._events = None

    def _module(self) -> Any:
        if importlib.util.find_spec("pynvml") is None:
            if self._loaded():
                raise DriverError("nvidia-ml-py is missing: pip install 'slurmscope[gpu]'")
            raise AbsentError("there is no NVIDIA driver")
        return importlib.import_module("pynvml")

    def _loaded(self) -> bool:
        return (self._dev / "nvidiactl").exists()

    def _card(self) -> bool:
        for vendor in self._sys.glob(_CARDS):
            try:
                # class 03…: a display controller; NVIDIA makes bridges and network cards too
                if vendor.read_text().strip() == _NVIDIA and (vendor.parent / "class").read_text().startswith("0x03"):
                    return True
            except OSError:
                continue
        return False

    def _words(self, error: Exception) -> str:
        nvml = self._nvml
        cures = {
            "LibRmVersionMismatch": "Driver/library version mismatch: the driver was upgraded and its old module still "
            "runs: reboot the node, or reload the module and restart the agent",
            "DriverNotLoaded": "there is a card and its driver is not loaded: modprobe nvidia",
            "LibraryNotFound": "libnvidia-ml.so.1 is not found, and the driver is loaded: install its libraries",
            "GpuIsLost": "is lost: it fell off the bus or failed; see dmesg for XID errors, drain and reboot the node",
            "ResetRequired": "needs a reset: drain the node, then nvidia-smi --gpu-reset or a reboot",
            "NoPermission": "no permission: may the agent open /dev/nvidia*?",
        }
        for name, cure in cures.items():
            kind = getattr(nvml, f"NVMLError_{name}", None)
            if kind is not None and isinstance(error, kind):
                return cure
        return f"NVML: {error}"

    # --- what NVML tells ----------------------------------------------------------------------------------------------

    def _ask(self, function: str, *args: Any, **named: Any) -> Any:
        """What NVML answers; None where this GPU, this driver or this pynvml does not know it, or we may not."""
        nvml = self._nvml
        ask = getattr(nvml, function, None)
        if ask is None:
            return None
        try:
            return ask(*args, **named)
        except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_ResetRequired, nvml.NVMLError_Uninitialized):
            if function in ("nvmlShutdown", "nvmlEventSetFree"):
                return None
            raise  # of the whole GPU, and not of this figure
        except (nvml.NVMLError, nvml.NVMLLibraryMismatchError, UnicodeDecodeError):
            return None

    def _first(self, *questions: tuple[Any, ...]) -> Any:
        """The first that is answered: drivers have old and new names for the same."""
        return next((answer for one in questions if (answer := self._ask(*one)) is not None), None)

    def _gpus(self, index: int, handle: Any) -> list[Gpu]:
        """The GPU, and where MIG is on its instances."""
        uuid = str(self._nvml.nvmlDeviceGetUUID(handle))
        self._watch(uuid, handle)
        xids = self._xids.get(uuid)
        memory = self._memory(handle)
        rates = self._ask("nvmlDeviceGetUtilizationRates", handle)
        reasons = self._first(
            ("nvmlDeviceGetCurrentClocksEventReasons", handle), ("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        )
        limit = self._first(("nvmlDeviceGetEnforcedPowerLimit", handle), ("nvmlDeviceGetPowerManagementLimit", handle))
        heat = self._first(
            ("nvmlDeviceGetTemperatureV", handle, _GPU_SENSOR), ("nvmlDeviceGetTemperature", handle, _GPU_SENSOR)
        )
        whole = Gpu(
            uuid=uuid,
            index=index,
            minor=self._ask("nvmlDeviceGetMinorNumber", handle),
            model=self._ask("nvmlDeviceGetName", handle) or "",
            vendor=self.name,
            utilization=_divided(rates and rates.gpu, 100),
            memory_utilization=_divided(rates and rates.memory, 100),
            memory_used=memory and memory.used,
            memory_total=memory and memory.total,
            power=_divided(self._ask("nvmlDeviceGetPowerUsage", handle), 1000),
            power_limit=_divided(limit, 1000),
            energy=_divided(self._ask("nvmlDeviceGetTotalEnergyConsumption", handle), 1000),
            temperature=_divided(heat, 1),
            clock=self._clock(handle, _SM),
            memory_clock=self._clock(handle, _MEMORY),
            throttled=None if reasons is None else tuple(_words_of(reasons)),
            ecc_corrected=self._ask("nvmlDeviceGetTotalEccErrors", handle, _CORRECTED, _VOLATILE),
            ecc_uncorrected=self._ask("nvmlDeviceGetTotalEccErrors", handle, _UNCORRECTED, _VOLATILE),
            xid_errors=None if xids is None else xids.count,
            last_xid=None if xids is None else xids.last,
            processes=self._processes(uuid, handle),
        )
        return [whole, *self._instances(whole, handle)]

    def _memory(self, handle: Any) -> Any:
        # the first form counts what the driver keeps for itself as used; nvidia-smi has not since 510
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle, version=_MEMORY_V2)
        return self._ask("nvmlDeviceGetMemoryInfo", handle) if memory is None else memory

    def _clock(self, handle: Any, which: int) -> float | None:
        megahertz = self._ask("nvmlDeviceGetClockInfo", handle, which)
        return None if megahertz is None else megahertz * 1e6

    # --- MIG ----------------------------------------------------------------------------------------------------------

    def _instances(self, whole: Gpu, handle: Any) -> Iterable[Gpu]:
        mode = self._ask("nvmlDeviceGetMigMode", handle)
        if not mode or mode[0] != _MIG_ON:
            return
        for place in range(self._ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            one = self._ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
            uuid = None if one is None else self._ask("nvmlDeviceGetUUID", one)
            if uuid is None:  # a place that is not taken
                continue
            memory = self._memory(one)
            rates = self._ask("nvmlDeviceGetUtilizationRates", one)
            yield Gpu(
                uuid=str(uuid),
                index=whole.index,
                minor=whole.minor,
                instance=self._ask("nvmlDeviceGetGpuInstanceId", one) or 0,
                profile=self._profile(one, whole.memory_total),
                model=whole.model,
                vendor=self.name,
                utilization=_divided(rates and rates.gpu, 100),
                memory_utilization=_divided(rates and rates.memory, 100),
                memory_used=memory and memory.used,
                memory_total=memory and memory.total,
                processes=self._processes(str(uuid), one),
            )

    def _profile(self, handle: Any, whole: int | None) -> str | None:
        _, mig, profile = (self._ask("nvmlDeviceGetName", handle) or "").rpartition(" MIG ")
        if mig:
            return str(profile)
        slices = self._first(("nvmlDeviceGetAttributes_v2", handle), ("nvmlDeviceGetAttributes", handle))
        if slices is None or not whole:
            return None
        # The name's gigabytes are so many eighths of the whole GPU's, rounded up, and not what the instance has.
        eighths = ceil(slices.memorySizeMB * 2**20 / whole * 8)
        name = f"{slices.gpuInstanceSliceCount}g.{round(ceil(whole / 2**30) * eighths / 8)}gb"
        part = slices.computeInstanceSliceCount
        return name if part == slices.gpuInstanceSliceCount else f"{part}c.{name}"

    # --- processes ----------------------------------------------------------------------------------------------------

    def _processes(self, uuid: str, handle: Any) -> tuple[GpuProcess, ...] | None:
        memory: dict[int, int | None] = {}
        told = False
        for kind in ("Compute", "Graphics", "MPSCompute"):
            # pynvml's plain name is the newest form, which older drivers have not
            name = f"nvmlDeviceGet{kind}RunningProcesses"
            listed = self._first((name, handle), (f"{name}_v2", handle))
            told = told or listed is not None
            for one in listed or ():
                # one that computes and draws is in two lists, with the same memory in both
                known = [size for size in (memory.get(one.pid), one.usedGpuMemory) if size is not None]
                memory[one.pid] = max(known, default=None)
        if not told:
            return None
        shares = self._shares(uuid, handle) if memory else None
        return tuple(
            GpuProcess(pid, size, None if shares is None else shares.get(pid, 0.0))
            for pid, size in sorted(memory.items())
        )

    def _shares(self, uuid: str, handle: Any) -> dict[int, float] | None:
        """What each process had of the GPU's time since the last read. Those that had nothing are not told of."""
        samples = self._ask("nvmlDeviceGetProcessUtilization", handle, self._sampled.get(uuid, 0))
        if samples is None:
            return None
        found: dict[int, list[float]] = {}
        for one in samples:
            if one.smUtil <= 100:  # some drivers leave rubbish in places that they do not fill
                found.setdefault(one.pid, []).append(one.smUtil / 100)
            self._sampled[uuid] = max(self._sampled.get(uuid, 0), one.timeStamp)
        return {pid: sum(each) / len(each) for pid, each in found.items()}

    # --- XID errors ---------------------------------------------------------------------------------------------------

    def _watch(self, uuid: str, handle: Any) -> None:
        if self._events is None or uuid in self._watched:
            return
        self._watched.add(uuid)  # where it is refused it is not asked for again
        try:
            self._nvml.nvmlDeviceRegisterEvents(handle, _XID, self._events)
        except self._nvml.NVMLError:
            return
        self._xids.setdefault(uuid, _Xids())

    def _take_events(self) -> None:
        if self._events is None:
            return
        for _ in range(_MOST_EVENTS):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                if event.eventType & _XID:
                    told = self._xids.setdefault(str(self._nvml.nvmlDeviceGetUUID(event.device)), _Xids())
                    told.count += 1
                    told.last = event.eventData
            except self._nvml.NVMLError:  # a timeout: there are no more
                return


def _divided(value: float | None, by: float) -> float | None:
    return None if value is None else value / by


def _words_of(reasons: int) -> Iterable[str]:
    bit = 1
    while bit <= reasons:
        if reasons & bit:
            yield _REASONS.get(bit, f"bit_{bit:#x}")
        bit <<= 1
