"""The machines whose GPUs this process reads itself, the one that it runs on first."""

from collections.abc import Sequence
from dataclasses import dataclass

from tgpu.breaker import BreakerState
from tgpu.devices.watch import DeviceWatch
from tgpu.service.hardware.node_hardware import Hardware


@dataclass(slots=True)
class Machine:
    hardware: Hardware
    watch: DeviceWatch
    told: BreakerState = BreakerState.CLOSED  # what was last said of its driver


def hardware_of(machines: Sequence[Machine]) -> list[Hardware]:
    return [machine.hardware for machine in machines]
