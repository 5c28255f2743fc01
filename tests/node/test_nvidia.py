# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's driver, against recordings of real cards, and against answers made by hand for what no card would show."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pynvml
import pytest
from node.recorded_nvml import RecordedNvml

from slurmscope.measure import Gpu, GpuProcess
from slurmscope.node.driver import AbsentError, DriverError
from slurmscope.node.nvidia import Nvidia

RECORDINGS = sorted((Path(__file__).parent.parent / "recordings/gpu").glob("*.json"))
TOOL = Path(__file__).parent.parent.parent / "tools/gpu_recording.py"
MIB = 1 << 20
Answers = dict[Any, Any]  # by function, or by function and first argument


class MadeNvml:
    """Answers made by hand. All else is not supported."""

    def __init__(self, answers: Mapping[Any, Any]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            return getattr(pynvml, name)

        def answer(*args: Any, **named: Any) -> Any:
            self.asked.append(name)
            key = (name, args[0]) if args and isinstance(args[0], str) else name
            found = self.answers.get(key, self.answers.get(name, pynvml.NVMLError_NotSupported()))
            found = found(*args) if callable(found) else found
            if isinstance(found, Exception):
                raise found
            return found

        return answer


def node(count: int = 1, **answers: Any) -> Answers:
    return {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlDeviceGetCount": count,
        "nvmlDeviceGetHandleByIndex": lambda index: f"gpu{index}",
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        **answers,
    }


def read(answers: Mapping[Any, Any]) -> list[Gpu]:
    return Nvidia(MadeNvml(answers)).read()


def process(pid: int, memory: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


# --- recordings -------------------------------------------------------------------------------------------------------


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_recording", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recordings() -> list[Any]:
    if RECORDINGS:
        return [pytest.param(path, id=path.stem) for path in RECORDINGS]
    return [pytest.param(None, marks=pytest.mark.skip(reason="no card has been recorded (tools/gpu_recording.py)"))]


@pytest.mark.parametrize("path", recordings())
def test_recorded_card_is_told_as_nvidia_smi_told_it(path: Path) -> None:
    recording = json.loads(path.read_text())
    nvml = RecordedNvml(recording)
    driver = Nvidia(nvml)
    compared = tool().compared
    names = set()
    for at, moment in enumerate(recording["moments"]):
        nvml.turn_to(at)
        gpus = driver.read()
        assert gpus and driver.trouble == ""
        ours = json.loads(msgspec.json.encode(gpus))
        assert ours == moment["ours"]
        rows = list(compared(dict(moment, ours=ours)))
        assert [row for row in rows if row[3] is False] == []
        assert len([row for row in rows if row[3]]) >= 8
        names.add(moment["name"])
    assert names >= {"idle", "loaded", "held"}


@pytest.mark.parametrize("path", recordings())
def test_recorded_load_shows_in_use_memory_and_power(path: Path) -> None:
    recording = json.loads(path.read_text())
    nvml = RecordedNvml(recording)
    driver = Nvidia(nvml)
    seen: dict[str, Gpu] = {}
    for at, moment in enumerate(recording["moments"]):
        nvml.turn_to(at)
        # the load is on the first GPU; of several moments of a kind the last, when figures have settled
        seen[moment["name"]] = driver.read()[0]
    idle, loaded, held = seen["idle"], seen["loaded"], seen["held"]
    size = recording["load_bytes"]
    assert idle.memory_used is not None and loaded.memory_used is not None and held.memory_used is not None
    assert loaded.memory_used - idle.memory_used >= size
    assert held.memory_used - idle.memory_used >= size
    if loaded.utilization is not None and held.utilization is not None:
        assert loaded.utilization > 0.9
        assert held.utilization < 0.1
    if loaded.energy is not None and held.energy is not None and idle.energy is not None:
        assert idle.energy < loaded.energy < held.energy
    assert idle.processes == ()
    assert loaded.processes and held.processes
    assert all(one.memory is None or one.memory >= size for one in loaded.processes + held.processes)


def test_made_answers_are_recorded_and_replayed() -> None:
    handle = ctypes.cast(ctypes.c_void_p(0x1000), pynvml.c_nvmlDevice_t)
    memory = pynvml.c_nvmlMemory_v2_t(total=9 * MIB, used=MIB)
    friendly = pynvml.nvmlStructToFriendlyObject(pynvml.c_nvmlProcessInfo_v3_t(pid=5, usedGpuMemory=MIB))
    recorder = tool().Recorder(
        MadeNvml(
            node(
                nvmlDeviceGetHandleByIndex=handle,
                nvmlDeviceGetUUID="GPU-1",
                nvmlDeviceGetMemoryInfo=memory,
                nvmlDeviceGetComputeRunningProcesses=[friendly],
                nvmlDeviceGetMigMode=[0, 0],
            )
        )
    )
    told = Nvidia(recorder).read()
    assert (told[0].memory_used, told[0].processes) == (MIB, (GpuProcess(5, MIB),))
    nvml = RecordedNvml(json.loads(json.dumps({"moments": [{"calls": recorder.calls}]})))
    nvml.turn_to(0)
    assert Nvidia(nvml).read() == told


# --- figures ----------------------------------------------------------------------------------------------------------


def test_made_figures_have_base_units() -> None:
    (gpu,) = read(
        node(
            nvmlDeviceGetName="NVIDIA Test",
            nvmlDeviceGetMinorNumber=3,
            nvmlDeviceGetUtilizationRates=SimpleNamespace(gpu=57, memory=29),
            nvmlDeviceGetMemoryInfo=SimpleNamespace(used=5 * MIB, total=100 * MIB),
            nvmlDeviceGetPowerUsage=123_456,
            nvmlDeviceGetEnforcedPowerLimit=700_000,
            nvmlDeviceGetTotalEnergyConsumption=9_876_543,
            nvmlDeviceGetTemperature=41,
            nvmlDeviceGetClockInfo=lambda _, which: {1: 1980, 2: 3201}[which],
            nvmlDeviceGetCurrentClocksThrottleReasons=0x4 | 0x40 | 0x10000,
            nvmlDeviceGetTotalEccErrors=lambda _, kind, counter: (7, 1)[kind] if counter == 0 else 99,
        )
    )
    assert gpu == Gpu(
        uuid="GPU-gpu0",
        index=0,
        minor=3,
        model="NVIDIA Test",
        vendor="nvidia",
        utilization=0.57,
        memory_utilization=0.29,
        memory_used=5 * MIB,
        memory_total=100 * MIB,
        power=123.456,
        power_limit=700.0,
        energy=9876.543,
        temperature=41.0,
        clock=1.98e9,
        memory_clock=3.201e9,
        throttled=("sw_power_cap", "hw_thermal", "bit_0x10000"),
        ecc_corrected=7,
        ecc_uncorrected=1,
    )


def test_made_card_that_supports_nothing_has_a_name_and_nothing_else() -> None:
    assert read(node(2)) == [
        Gpu(uuid="GPU-gpu0", index=0, vendor="nvidia"),
        Gpu(uuid="GPU-gpu1", index=1, vendor="nvidia"),
    ]


@pytest.mark.parametrize("error", [pynvml.NVMLError_NoPermission(), pynvml.NVMLError_Unknown()])
def test_made_figure_that_fails_costs_no_other(error: Exception) -> None:
    (gpu,) = read(node(nvmlDeviceGetPowerUsage=error, nvmlDeviceGetTemperatureV=50))
    assert (gpu.power, gpu.temperature) == (None, 50.0)


def test_made_function_that_an_old_pynvml_lacks_is_unknown() -> None:
    class Old(MadeNvml):
        def __getattr__(self, name: str) -> Any:
            if name in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons"):
                raise AttributeError(name)
            return super().__getattr__(name)

    (gpu,) = Nvidia(Old(node(nvmlDeviceGetTemperature=50, nvmlDeviceGetCurrentClocksThrottleReasons=0))).read()
    assert (gpu.temperature, gpu.throttled) == (50.0, ())


# --- processes --------------------------------------------------------------------------------------------------------


def test_made_processes_of_all_lists_are_told_once_with_their_memory() -> None:
    (gpu,) = read(
        node(
            nvmlDeviceGetComputeRunningProcesses=[process(20, 4 * MIB), process(10, None)],
            nvmlDeviceGetGraphicsRunningProcesses=[process(20, 4 * MIB)],
            nvmlDeviceGetMPSComputeRunningProcesses=[process(30, MIB)],
        )
    )
    assert gpu.processes == (GpuProcess(10), GpuProcess(20, 4 * MIB), GpuProcess(30, MIB))


def test_made_older_driver_tells_processes_by_the_older_name() -> None:
    (gpu,) = read(
        node(
            nvmlDeviceGetComputeRunningProcesses=pynvml.NVMLLibraryMismatchError("old"),
            nvmlDeviceGetComputeRunningProcesses_v2=[process(5, MIB)],
        )
    )
    assert gpu.processes == (GpuProcess(5, MIB),)


def test_made_process_shares_are_asked_from_where_the_last_read_ended() -> None:
    since = []

    def samples(_: str, stamp: int) -> list[SimpleNamespace]:
        since.append(stamp)
        return [
            SimpleNamespace(pid=5, timeStamp=100 + len(since), smUtil=40),
            SimpleNamespace(pid=5, timeStamp=50, smUtil=60),
            SimpleNamespace(pid=7, timeStamp=60, smUtil=4_000_000),
        ]

    listed = [process(5, MIB), process(6, MIB)]
    driver = Nvidia(
        MadeNvml(node(nvmlDeviceGetComputeRunningProcesses=listed, nvmlDeviceGetProcessUtilization=samples))
    )
    assert driver.read()[0].processes == (GpuProcess(5, MIB, 0.5), GpuProcess(6, MIB, 0.0))
    driver.read()
    assert since == [0, 101]


def test_made_driver_without_samples_says_nothing_of_shares() -> None:
    (gpu,) = read(
        node(
            nvmlDeviceGetComputeRunningProcesses=[process(5, MIB)],
            nvmlDeviceGetProcessUtilization=pynvml.NVMLError_NotFound(),
        )
    )
    assert gpu.processes == (GpuProcess(5, MIB, None),)


# --- MIG --------------------------------------------------------------------------------------------------------------


def mig(**answers: Any) -> Answers:
    gib = 1 << 30
    instances = {0: "mig3", 2: "mig5"}
    ids = {"mig3": 3, "mig5": 5}
    slices = SimpleNamespace(gpuInstanceSliceCount=1, computeInstanceSliceCount=1, memorySizeMB=16384)
    return {
        **node(2),
        "nvmlDeviceGetMinorNumber": lambda handle: {"gpu0": 0, "gpu1": 1}[handle],
        "nvmlDeviceGetUUID": lambda handle: f"MIG-{handle}" if handle in ids else f"GPU-{handle}",
        "nvmlDeviceGetName": "NVIDIA H200",
        ("nvmlDeviceGetMigMode", "gpu1"): [1, 1],
        ("nvmlDeviceGetMigMode", "gpu0"): [0, 1],
        "nvmlDeviceGetMaxMigDeviceCount": 7,
        "nvmlDeviceGetMigDeviceHandleByIndex": lambda _, at: instances.get(at, pynvml.NVMLError_NotFound()),
        "nvmlDeviceGetGpuInstanceId": lambda handle: ids[handle],
        "nvmlDeviceGetAttributes_v2": slices,
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=gib, total=16 * gib),
        ("nvmlDeviceGetMemoryInfo", "gpu1"): SimpleNamespace(used=2 * gib, total=143771 * MIB),
        ("nvmlDeviceGetComputeRunningProcesses", "mig5"): [process(77, gib)],
        ("nvmlDeviceGetComputeRunningProcesses", "mig3"): [],
        **answers,
    }


def test_made_mig_instances_follow_their_gpu() -> None:
    gpus = read(mig())
    assert [(gpu.uuid, gpu.index, gpu.minor, gpu.instance, gpu.profile) for gpu in gpus] == [
        ("GPU-gpu0", 0, 0, None, None),
        ("GPU-gpu1", 1, 1, None, None),
        ("MIG-mig3", 1, 1, 3, "1g.18gb"),
        ("MIG-mig5", 1, 1, 5, "1g.18gb"),
    ]
    assert (gpus[3].memory_used, gpus[3].memory_total, gpus[3].utilization) == (1 << 30, 16 << 30, None)
    assert [gpu.processes for gpu in gpus] == [None, None, (), (GpuProcess(77, 1 << 30),)]


@pytest.mark.parametrize(
    ("gi", "ci", "megabytes", "whole", "profile"),
    [
        (1, 1, 4864, 40536, "1g.5gb"),
        (2, 2, 9856, 40536, "2g.10gb"),
        (3, 3, 19968, 40536, "3g.20gb"),
        (7, 7, 40192, 40536, "7g.40gb"),
        (1, 1, 9728, 81559, "1g.10gb"),
        (3, 1, 40448, 81559, "1c.3g.40gb"),
    ],
)
def test_made_mig_profile_is_named_as_nvidia_names_it(
    gi: int, ci: int, megabytes: int, whole: int, profile: str
) -> None:
    slices = SimpleNamespace(gpuInstanceSliceCount=gi, computeInstanceSliceCount=ci, memorySizeMB=megabytes)
    memory = {("nvmlDeviceGetMemoryInfo", "gpu1"): SimpleNamespace(used=0, total=whole * MIB)}
    assert read(mig(nvmlDeviceGetAttributes_v2=slices) | memory)[2].profile == profile


def test_made_mig_profile_is_taken_from_the_name_where_it_is_there() -> None:
    name = {("nvmlDeviceGetName", "mig3"): "NVIDIA A100-SXM4-40GB MIG 1g.5gb+me"}
    assert read(mig() | name)[2].profile == "1g.5gb+me"


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetPowerUsage"])
def test_made_lost_gpu_costs_only_itself_and_is_said(where: str) -> None:
    answers = node(3)
    whole = answers.get(where, lambda _: 1000)
    lost = pynvml.NVMLError_GpuIsLost()
    answers[where] = lambda which: lost if which in (1, "gpu1") else whole(which)
    driver = Nvidia(MadeNvml(answers))
    assert [gpu.index for gpu in driver.read()] == [0, 2]
    assert driver.trouble.startswith("GPU 1: is lost")
    answers[where] = whole
    again = Nvidia(MadeNvml(answers))
    assert [gpu.index for gpu in again.read()] == [0, 1, 2]
    assert again.trouble == ""


def test_made_lost_gpu_is_looked_for_with_a_new_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmscope.node.nvidia._RENEWAL", -1.0)
    nvml = MadeNvml(node(nvmlDeviceGetHandleByIndex=pynvml.NVMLError_GpuIsLost()))
    driver = Nvidia(nvml)
    assert driver.read() == []
    nvml.answers["nvmlDeviceGetHandleByIndex"] = "gpu0"
    assert [gpu.uuid for gpu in driver.read()] == ["GPU-gpu0"]
    assert nvml.asked.count("nvmlInit") == 2


def test_made_version_mismatch_says_what_to_do_and_is_got_over() -> None:
    nvml = MadeNvml(node(nvmlInit=pynvml.NVMLError_LibRmVersionMismatch()))
    driver = Nvidia(nvml)
    with pytest.raises(DriverError, match=r"Driver/library version mismatch: .* reboot the node"):
        driver.read()
    nvml.answers["nvmlInit"] = None
    assert len(driver.read()) == 1


def test_made_driver_that_forgot_us_is_started_anew() -> None:
    nvml = MadeNvml(node())
    driver = Nvidia(nvml)
    driver.read()
    nvml.answers["nvmlDeviceGetCount"] = pynvml.NVMLError_Uninitialized()
    with pytest.raises(DriverError, match="NVML: Uninitialized"):
        driver.read()
    nvml.answers["nvmlDeviceGetCount"] = 1
    assert len(driver.read()) == 1
    assert nvml.asked.count("nvmlInit") == 2


def test_made_xid_errors_are_counted_from_our_start_over_restarts_of_nvml() -> None:
    events = [
        SimpleNamespace(device="gpu1", eventType=8, eventData=31),
        SimpleNamespace(device="gpu1", eventType=8, eventData=79),
    ]
    nvml = MadeNvml(
        node(
            2,
            nvmlEventSetCreate="events",
            nvmlEventSetFree=None,
            nvmlDeviceRegisterEvents=lambda handle, kinds, into: None,
            nvmlEventSetWait_v2=lambda _set, _wait: events.pop(0) if events else pynvml.NVMLError_Timeout(),
        )
    )
    driver = Nvidia(nvml)
    # those that were there before anybody listened are of no GPU that is watched, and are known all the same
    assert [(gpu.xid_errors, gpu.last_xid) for gpu in driver.read()] == [(0, None), (2, 79)]
    driver.close()
    events.append(SimpleNamespace(device="gpu0", eventType=8, eventData=13))
    assert [(gpu.xid_errors, gpu.last_xid) for gpu in driver.read()] == [(1, 13), (2, 79)]
    assert nvml.asked.count("nvmlDeviceRegisterEvents") == 4


def test_made_card_without_events_says_nothing_of_xid_errors() -> None:
    (gpu,) = read(node(nvmlEventSetCreate="events", nvmlEventSetWait_v2=pynvml.NVMLError_Timeout()))
    assert gpu.xid_errors is None


# --- no driver, no card -----------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "dev").mkdir()
    (tmp_path / "sys").mkdir()
    return tmp_path


def card(place: Path, kind: str) -> None:
    device = place / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text(f"{kind}\n")


def on(place: Path, nvml: Any) -> Nvidia:
    return Nvidia(nvml, dev=place / "dev", sys=place / "sys")


def test_no_library_here_is_no_problem(place: Path) -> None:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        with pytest.raises(AbsentError):
            on(place, None).read()
    else:
        assert Nvidia().read() is not None


def test_made_library_that_is_missing_beside_a_driver_is_one(place: Path) -> None:
    (place / "dev/nvidiactl").touch()
    with pytest.raises(DriverError, match="install its libraries") as caught:
        on(place, MadeNvml({"nvmlInit": pynvml.NVMLError_LibraryNotFound()})).read()
    assert not isinstance(caught.value, AbsentError)


def test_made_driver_that_is_not_loaded_is_a_problem_only_where_there_is_a_card(place: Path) -> None:
    driver = on(place, MadeNvml({"nvmlInit": pynvml.NVMLError_DriverNotLoaded()}))
    with pytest.raises(AbsentError):
        driver.read()
    card(place, "0x020000")
    with pytest.raises(AbsentError):
        driver.read()
    (place / "sys/bus/pci/devices/0000:01:00.0/class").write_text("0x030200\n")
    with pytest.raises(DriverError, match="modprobe nvidia") as caught:
        driver.read()
    assert not isinstance(caught.value, AbsentError)


def test_pynvml_that_is_missing_is_a_problem_only_where_there_is_a_driver(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pynvml")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(AbsentError):
        on(place, None).read()
    (place / "dev/nvidiactl").touch()
    with pytest.raises(DriverError, match=r"pip install 'slurmscope\[gpu\]'"):
        on(place, None).read()
