# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""AMD's GPUs: by amdsmi, which comes with ROCm, and where it is not there, or does not work, by the kernel's files.

The files can be read by everybody, but for the processes of other users on some kernels. A GPU is named as ROCm names
it in `ROCR_VISIBLE_DEVICES`, by the unique id that is burnt into it. The device file that Slurm is told of is
/dev/dri/renderD<minor>.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slurmscope.measure import Gpu, GpuProcess
from slurmscope.node.driver import AbsentError, DriverError

_AMD = "0x1002"
_CARD = re.compile(r"card(\d+)")
_RENDER = re.compile(r"renderD(\d+)")
_ECC = re.compile(r"^(ue|ce):\s*(\d+)", re.MULTILINE)
_MEGA = 1 << 20


class Amd:
    """The driver. `sys` is where sysfs is; `smi` is the module amdsmi, or what stands in for it."""

    name = "amd"

    def __init__(self, sys: Path = Path("/sys"), smi: Any = None) -> None:
        self.trouble = ""
        self._sys = sys
        self._smi = smi
        self._started = False

    def read(self) -> list[Gpu]:
        cards = _cards(self._sys)
        if not cards:
            self.close()
            raise AbsentError("there is no AMD GPU")
        self.trouble = ""
        if self._smi is None and importlib.util.find_spec("amdsmi") is not None:
            self._smi = self._module()
        if self._smi is not None:
            try:
                return self._told(cards)
            except self._smi.AmdSmiException as error:
                # what the kernel's files do not tell is absent then, and the rest is as good
                self.trouble = f"amdsmi: {error}: read from {self._sys} instead; is ROCm's version that of the driver?"
                self.close()
        found = [gpu for index, card in enumerate(cards) if (gpu := _of_files(index, card, self._sys)) is not None]
        if not found:
            raise DriverError(f"no AMD GPU in {self._sys}/class/drm can be read: is amdgpu loaded? see dmesg")
        return found

    def close(self) -> None:
        if self._started:
            self._started = False
            self._ask("amdsmi_shut_down")

    def _module(self) -> Any:
        try:
            return importlib.import_module("amdsmi")
        except (ImportError, OSError, KeyError, AttributeError) as error:
            # it loads ROCm's library as it is imported, and fails in many ways where that is another version's
            self.trouble = f"amdsmi cannot be loaded ({error}): read from {self._sys} instead"
            return None

    # --- amdsmi -------------------------------------------------------------------------------------------------------

    def _told(self, cards: list[Path]) -> list[Gpu]:
        smi = self._smi
        if not self._started:
            smi.amdsmi_init()
            self._started = True
        places = {_place(card): card for card in cards}
        gpus = []
        for index, handle in enumerate(smi.amdsmi_get_processor_handles()):
            place = self._ask("amdsmi_get_gpu_device_bdf", handle)
            gpus.append(self._gpu(index, handle, str(place or ""), places.get(str(place))))
        return gpus

    def _ask(self, function: str, *args: Any) -> Any:
        ask = getattr(self._smi, function, None)
        try:
            return None if ask is None else ask(*args)
        except self._smi.AmdSmiException:
            return None

    def _gpu(self, index: int, handle: Any, place: str, card: Path | None) -> Gpu:
        smi = self._smi
        asic = self._ask("amdsmi_get_gpu_asic_info", handle)
        activity = self._ask("amdsmi_get_gpu_activity", handle)
        memory = self._ask("amdsmi_get_gpu_vram_usage", handle)
        power = self._ask("amdsmi_get_power_info", handle)
        cap = self._ask("amdsmi_get_power_cap_info", handle)
        energy = self._ask("amdsmi_get_energy_count", handle)
        ecc = self._ask("amdsmi_get_gpu_total_ecc_count", handle)
        heat = self._ask(
            "amdsmi_get_temp_metric",
            handle,
            smi.AmdSmiTemperatureType.HOTSPOT,  # data-centre cards have no other
            smi.AmdSmiTemperatureMetric.CURRENT,
        )
        joules = _number(energy, "energy_accumulator", "power")
        step = _number(energy, "counter_resolution")
        return Gpu(
            uuid=_name(_text(asic, "asic_serial"), place),
            index=index,
            minor=None if card is None else _minor(card),
            model=_text(asic, "market_name"),
            vendor=self.name,
            utilization=_divided(_number(activity, "gfx_activity"), 100),
            memory_utilization=_divided(_number(activity, "umc_activity"), 100),
            memory_used=_whole(_number(memory, "vram_used"), _MEGA),
            memory_total=_whole(_number(memory, "vram_total"), _MEGA),
            power=_number(power, "current_socket_power", "average_socket_power"),
            power_limit=_divided(_number(cap, "power_cap"), 1e6),
            energy=None if joules is None or step is None else joules * step / 1e6,
            temperature=None if heat is None else _number({"": heat}, ""),
            clock=self._clock(handle, smi.AmdSmiClkType.GFX),
            memory_clock=self._clock(handle, smi.AmdSmiClkType.MEM),
            ecc_corrected=_whole(_number(ecc, "correctable_count")),
            ecc_uncorrected=_whole(_number(ecc, "uncorrectable_count")),
            processes=self._processes(handle),
        )

    def _clock(self, handle: Any, which: Any) -> float | None:
        megahertz = _number(self._ask("amdsmi_get_clock_info", handle, which), "clk", "cur_clk")
        return None if megahertz is None else megahertz * 1e6

    def _processes(self, handle: Any) -> tuple[GpuProcess, ...] | None:
        listed = self._ask("amdsmi_get_gpu_process_list", handle)
        if listed is None:
            return None
        found = ((_whole(_number(one, "pid")), _whole(_number(one, "mem"))) for one in listed)
        return tuple(GpuProcess(pid, memory) for pid, memory in sorted(found, key=str) if pid is not None)


def _text(told: Any, key: str) -> str:
    value = told.get(key) if isinstance(told, Mapping) else None
    return value if isinstance(value, str) and value != "N/A" else ""


def _number(told: Any, *keys: str) -> float | None:
    """The first of these that is a number: amdsmi says "N/A" of what it does not know, and renames its keys."""
    for key in keys:
        value = told.get(key) if isinstance(told, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return None


def _whole(value: float | None, times: int = 1) -> int | None:
    return None if value is None else int(value * times)


def _divided(value: float | None, by: float) -> float | None:
    return None if value is None else value / by


def _name(unique: str, place: str) -> str:
    unique = unique.lower().removeprefix("0x").zfill(16)
    # cards for desktops have none: the place on the bus is the best there is
    return f"GPU-{unique}" if unique.strip("0") else place


# --- the kernel's files -----------------------------------------------------------------------------------------------


def _cards(sys: Path) -> list[Path]:
    """The folders of AMD's GPUs, in the order of their places on the bus, by which ROCm and Slurm count."""
    devices = (card / "device" for card in sys.glob("class/drm/card*") if _CARD.fullmatch(card.name))
    return sorted((one for one in devices if _read(one / "vendor") == _AMD), key=_place)


def _place(device: Path) -> str:
    return device.resolve().name


def _minor(device: Path) -> int | None:
    found = (_RENDER.fullmatch(one.name) for one in device.glob("drm/renderD*"))
    return next((int(one[1]) for one in found if one), None)


def _of_files(index: int, device: Path, sys: Path) -> Gpu | None:
    total = _count(device / "mem_info_vram_total")
    busy = _count(device / "gpu_busy_percent")
    if total is None and busy is None:
        return None  # another driver's (vfio), or not initialised
    sensors = next(iter(sorted(device.glob("hwmon/hwmon*"))), device)
    power = next(
        (one for name in ("average", "input") if (one := _count(sensors / f"power1_{name}")) is not None), None
    )
    ecc = dict(_ecc(device))
    return Gpu(
        uuid=_name(_read(device / "unique_id"), _place(device)),
        index=index,
        minor=_minor(device),
        model=_read(device / "product_name"),
        vendor=Amd.name,
        utilization=_divided(busy, 100),
        memory_utilization=_divided(_count(device / "mem_busy_percent"), 100),
        memory_used=_count(device / "mem_info_vram_used"),
        memory_total=total,
        power=_divided(power, 1e6),
        power_limit=_divided(_count(sensors / "power1_cap"), 1e6),
        temperature=_divided(_count(sensors / "temp1_input"), 1000),
        clock=_divided(_count(sensors / "freq1_input"), 1),
        memory_clock=_divided(_count(sensors / "freq2_input"), 1),
        ecc_corrected=ecc.get("ce"),
        ecc_uncorrected=ecc.get("ue"),
        processes=_kfd_processes(device, sys),
    )


def _ecc(device: Path) -> Iterable[tuple[str, int]]:
    """Errors by kind, of all parts of the GPU that count them."""
    sums: dict[str, int] = {}
    for file in device.glob("ras/*_err_count"):
        for kind, count in _ECC.findall(_read(file)):
            sums[kind] = sums.get(kind, 0) + int(count)
    return sums.items()


def _kfd_processes(device: Path, sys: Path) -> tuple[GpuProcess, ...] | None:
    """Processes that compute, from /sys/class/kfd/kfd/proc/<pid>/vram_<gpu id>."""
    minor = _minor(device)
    nodes = (sys / "class/kfd/kfd/topology/nodes").glob("*")
    ids = [
        _read(one / "gpu_id") for one in nodes if f"drm_render_minor {minor}" in _read(one / "properties").split("\n")
    ]
    folder = sys / "class/kfd/kfd/proc"
    if minor is None or not ids or not folder.is_dir():
        return None
    found = []
    for process in folder.iterdir():
        file = process / f"vram_{ids[0]}"
        # a process is listed with all GPUs that it may use, which is not to say that it does
        if process.name.isdigit() and (memory := _count(file)):
            found.append(GpuProcess(int(process.name), memory))
    return tuple(sorted(found, key=lambda one: one.pid))


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:  # a figure that a GPU does not have is a file that is missing, or one whose reading fails
        return ""


def _count(file: Path) -> int | None:
    text = _read(file)
    return int(text) if text.isascii() and text.isdigit() else None
