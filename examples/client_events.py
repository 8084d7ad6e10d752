"""Follows every change of every job and keeps its place in a file, so that nothing is missed.

python examples/client_events.py --place events.txt [--count 10]

Started again, it goes on behind the last change that it has shown; the service may be restarted
meanwhile as well.
"""

import argparse
import asyncio
from pathlib import Path

from tgpu.client import AsyncClient


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, default=Path("events.txt"))
    parser.add_argument("--count", type=int, help="end after this many changes")
    arguments = parser.parse_args()
    left = arguments.count
    async with AsyncClient() as client:
        events = client.events(after=last_place(arguments.place))
        async for event in events:
            about = event.job_id or event.tenant_id or f"{len(event.job_ids)} jobs"
            print(f"{event.seq} {event.at} {event.kind} {about}", flush=True)
            # Only now: what was not shown must come again.
            arguments.place.write_text(f"{event.seq}\n")
            left = None if left is None else left - 1
            if left == 0:
                break
        await events.aclose()


def last_place(file: Path) -> int:
    return int(file.read_text()) if file.exists() else 0


if __name__ == "__main__":
    asyncio.run(main())
