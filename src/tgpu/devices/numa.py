"""The NUMA node of a PCI device, from sysfs."""

from pathlib import Path


def numa_node_of(pci_bus_id: str, sysfs: Path = Path("/sys")) -> int | None:
    """The node of "00000000:3B:00.0" (the driver's spelling); None where the kernel has none.

    The driver's own answer (nvmlDeviceGetNumaNodeId) exists only where a GPU is itself a NUMA
    node, and then names that node instead of the processor's beside it.
    """
    domain, _, rest = pci_bus_id.strip().lower().partition(":")
    try:
        # sysfs writes at least four digits of the domain, the driver always eight.
        device = f"{int(domain, 16):04x}:{rest}"
        node = int((sysfs / "bus/pci/devices" / device / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
