"""A process that reads GPUs through NVML on command: one word a line in, one JSON line out.

start: the provider, or why there is none · read: a snapshot · calls: how many NVML calls the
last read made · watch: a snapshot through DeviceWatch with a short time-out · detect: the sentence
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tgpu.breaker import BreakerRules
from tgpu.devices.api import NoDriver
from tgpu.devices.detect import detect, node_size
from tgpu.devices.nvml import NvmlProvider
from tgpu.devices.watch import DeviceWatch

WATCH_TIMEOUT_SECONDS = 0.5


class Reader:
    def __init__(self, sysfs: Path) -> None:
        self._sysfs = sysfs
        self._provider: NvmlProvider | None = None
        self._watch: DeviceWatch | None = None
        self._calls = 0

    def provider(self) -> NvmlProvider:
        if self._provider is None:
            self._provider = NvmlProvider(sysfs=self._sysfs)
        return self._provider

    def start(self) -> object:
        try:
            return self.provider().name
        except NoDriver as error:
            return {"no_driver": str(error)}

    def read(self) -> object:
        return self.provider().read()

    def watch(self) -> object:
        if self._watch is None:
            rules = BreakerRules(failures=3, retry_ms=300)
            self._watch = DeviceWatch(self.provider(), WATCH_TIMEOUT_SECONDS, rules)
        return asyncio.run(self._watch.read())

    def detect(self) -> object:
        found = detect("auto")
        return {"sentence": found.sentence, "node": node_size(found.provider)}

    def calls(self) -> object:
        """Reads once, counting the calls of the binding."""
        import pynvml

        count = 0

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any) -> Any:
                nonlocal count
                count += 1
                return function(*args)

            return call

        provider = self.provider()
        originals = {name: getattr(pynvml, name) for name in dir(pynvml)}
        for name, value in originals.items():
            if name.startswith("nvmlDeviceGet"):
                setattr(pynvml, name, counted(value))
        provider.read()
        for name, value in originals.items():
            setattr(pynvml, name, value)
        return count


def main() -> None:
    reader = Reader(Path(sys.argv[1]))
    for line in sys.stdin:
        answer = getattr(reader, line.strip())()
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
