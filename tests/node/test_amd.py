# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""AMD's driver. No AMD card can be had: its files are trees made by hand, and amdsmi is a stand-in."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurmscope.measure import Gpu, GpuProcess
from slurmscope.node.amd import Amd
from slurmscope.node.driver import AbsentError, DriverError

GIB = 1 << 30
FILES = {
    "vendor": "0x1002",
    "product_name": "AMD Instinct MI250X",
    "gpu_busy_percent": "57",
    "mem_busy_percent": "12",
    "mem_info_vram_used": str(3 * GIB),
    "mem_info_vram_total": str(64 * GIB),
    "hwmon/hwmon4/power1_average": "305000000",
    "hwmon/hwmon4/power1_cap": "560000000",
    "hwmon/hwmon4/temp1_input": "41500",
    "hwmon/hwmon4/freq1_input": "1700000000",
    "hwmon/hwmon4/freq2_input": "1600000000",
    "ras/umc_err_count": "ue: 1\nce: 20",
    "ras/gfx_err_count": "ue: 2\nce: 3",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def card(sys: Path, number: int, place: str, **files: str) -> Path:
    """As the kernel has it: the card's folder leads to its device's on the bus."""
    device = sys / "devices/pci0000:00" / place
    write(device, FILES | {"unique_id": f"{0xABC0 + number:016x}", **files})
    (device / f"drm/renderD{128 + number}").mkdir(parents=True)
    link = sys / f"class/drm/card{number}"
    link.mkdir(parents=True)
    (link / "device").symlink_to(device)
    (sys / f"class/drm/card{number}-DP-1").mkdir()
    return device


def kfd(sys: Path, numbers: dict[int, int], processes: dict[int, dict[int, int]]) -> None:
    """`numbers`: KFD's id of a GPU by the minor of its file; `processes`: memory by pid and id."""
    write(sys / "class/kfd/kfd/topology/nodes/0", {"gpu_id": "0", "properties": "cpu_cores_count 64"})
    for at, (minor, ident) in enumerate(numbers.items(), 1):
        node = {"gpu_id": str(ident), "properties": f"simd_count 440\ndrm_render_minor {minor}\ngfx_target 90010"}
        write(sys / f"class/kfd/kfd/topology/nodes/{at}", node)
    for pid, memory in processes.items():
        write(sys / f"class/kfd/kfd/proc/{pid}", {f"vram_{ident}": str(size) for ident, size in memory.items()})


def test_made_tree_is_read_in_base_units(tmp_path: Path) -> None:
    card(tmp_path, 0, "0000:c1:00.0")
    kfd(tmp_path, {128: 777}, {4242: {777: 2 * GIB}, 4243: {777: 0}})
    driver = Amd(tmp_path)
    assert driver.read() == [
        Gpu(
            uuid="GPU-000000000000abc0",
            index=0,
            minor=128,
            model="AMD Instinct MI250X",
            vendor="amd",
            utilization=0.57,
            memory_utilization=0.12,
            memory_used=3 * GIB,
            memory_total=64 * GIB,
            power=305.0,
            power_limit=560.0,
            temperature=41.5,
            clock=1.7e9,
            memory_clock=1.6e9,
            ecc_corrected=23,
            ecc_uncorrected=3,
            processes=(GpuProcess(4242, 2 * GIB),),
        )
    ]
    assert driver.trouble == ""


def test_made_tree_of_several_cards_is_in_the_order_of_the_bus(tmp_path: Path) -> None:
    card(tmp_path, 0, "0000:d1:00.0")
    card(tmp_path, 1, "0000:c1:00.0")
    card(tmp_path, 2, "0000:02:00.0", vendor="0x10de")
    kfd(tmp_path, {128: 10, 129: 20}, {5: {10: GIB, 20: 0}, 6: {20: GIB}})
    assert [(gpu.index, gpu.minor, gpu.processes) for gpu in Amd(tmp_path).read()] == [
        (0, 129, (GpuProcess(6, GIB),)),
        (1, 128, (GpuProcess(5, GIB),)),
    ]


def test_made_tree_that_lacks_files_has_unknown_figures_only(tmp_path: Path) -> None:
    device = card(tmp_path, 0, "0000:c1:00.0", mem_busy_percent="", gpu_busy_percent="-5", unique_id="")
    shutil.rmtree(device / "hwmon")
    shutil.rmtree(device / "ras")
    (gpu,) = Amd(tmp_path).read()
    assert gpu == Gpu(
        uuid="0000:c1:00.0",
        index=0,
        minor=128,
        model="AMD Instinct MI250X",
        vendor="amd",
        memory_used=3 * GIB,
        memory_total=64 * GIB,
    )


def test_made_tree_of_a_newer_kernel_has_the_power_of_now(tmp_path: Path) -> None:
    device = card(tmp_path, 0, "0000:c1:00.0")
    sensors = device / "hwmon/hwmon4"
    (sensors / "power1_average").rename(sensors / "power1_input")
    assert Amd(tmp_path).read()[0].power == 305.0


def test_made_tree_without_a_card_is_no_problem(tmp_path: Path) -> None:
    with pytest.raises(AbsentError):
        Amd(tmp_path).read()
    card(tmp_path, 0, "0000:01:00.0", vendor="0x10de")
    with pytest.raises(AbsentError):
        Amd(tmp_path).read()


def test_made_tree_of_a_card_without_its_driver_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path / "class/drm/card0/device", {"vendor": "0x1002"})
    with pytest.raises(DriverError, match="is amdgpu loaded") as caught:
        Amd(tmp_path).read()
    assert not isinstance(caught.value, AbsentError)


# --- amdsmi -----------------------------------------------------------------------------------------------------------


class SmiError(Exception):
    pass


def smi(**answers: Any) -> SimpleNamespace:
    def answer(value: Any) -> Any:
        def ask(*_: Any) -> Any:
            if isinstance(value, Exception):
                raise value
            return value

        return ask

    told = {
        "amdsmi_init": None,
        "amdsmi_shut_down": None,
        "amdsmi_get_processor_handles": ["handle"],
        "amdsmi_get_gpu_device_bdf": "0000:c1:00.0",
        "amdsmi_get_gpu_asic_info": {"market_name": "AMD Instinct MI300X", "asic_serial": "0xABC0"},
        "amdsmi_get_gpu_activity": {"gfx_activity": 99, "umc_activity": "N/A", "mm_activity": "N/A"},
        "amdsmi_get_gpu_vram_usage": {"vram_total": 65536, "vram_used": 1024},
        "amdsmi_get_power_info": {"current_socket_power": "N/A", "average_socket_power": 305},
        "amdsmi_get_power_cap_info": {"power_cap": 560000000},
        "amdsmi_get_energy_count": {"energy_accumulator": 2_000_000, "counter_resolution": 15.3},
        "amdsmi_get_gpu_total_ecc_count": {"correctable_count": 4, "uncorrectable_count": 0},
        "amdsmi_get_temp_metric": 55,
        "amdsmi_get_clock_info": {"clk": 2100},
        "amdsmi_get_gpu_process_list": [{"pid": 9, "mem": GIB}, {"pid": 8, "mem": "N/A"}],
    }
    return SimpleNamespace(
        AmdSmiException=SmiError,
        AmdSmiTemperatureType=SimpleNamespace(HOTSPOT=1),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=0),
        AmdSmiClkType=SimpleNamespace(GFX=0, MEM=4),
        **{name: answer(value) for name, value in (told | answers).items()},
    )


def test_made_amdsmi_is_read_in_base_units(tmp_path: Path) -> None:
    card(tmp_path, 0, "0000:c1:00.0")
    (gpu,) = Amd(tmp_path, smi()).read()
    assert gpu == Gpu(
        uuid="GPU-000000000000abc0",
        index=0,
        minor=128,
        model="AMD Instinct MI300X",
        vendor="amd",
        utilization=0.99,
        memory_used=GIB,
        memory_total=64 * GIB,
        power=305,
        power_limit=560.0,
        energy=pytest.approx(30.6),  # type: ignore[arg-type]
        temperature=55,
        clock=2.1e9,
        memory_clock=2.1e9,
        ecc_corrected=4,
        ecc_uncorrected=0,
        processes=(GpuProcess(8), GpuProcess(9, GIB)),
    )


def test_made_amdsmi_that_knows_little_costs_only_what_it_does_not_know(tmp_path: Path) -> None:
    card(tmp_path, 0, "0000:c1:00.0")
    refused = {name: SmiError("not supported") for name in vars(smi()) if name.startswith("amdsmi_get_gpu_")}
    (gpu,) = Amd(tmp_path, smi(**refused)).read()
    assert (gpu.utilization, gpu.memory_total, gpu.processes, gpu.power) == (None, None, None, 305)


def test_made_amdsmi_that_does_not_start_leaves_it_to_the_files_and_is_said(tmp_path: Path) -> None:
    card(tmp_path, 0, "0000:c1:00.0")
    driver = Amd(tmp_path, smi(amdsmi_init=SmiError("driver not loaded")))
    assert driver.read()[0].utilization == 0.57
    assert driver.trouble.startswith("amdsmi: driver not loaded")
