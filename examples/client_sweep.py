"""Tries a few learning rates at once, waits for all of them and ranks them by accuracy.

python examples/client_sweep.py            # with your own service (tgpu start)
TGPU_URL=http://127.0.0.1:8080 python examples/client_sweep.py
"""

import sys
from pathlib import Path

from tgpu.client import Client, SubmitRequest

TRAINING = Path(__file__).with_name("train_demo.py")


def main() -> int:
    with Client() as client:
        sweep = client.submit(
            SubmitRequest(
                name="sweep",
                command=[sys.executable, str(TRAINING), "--pause", "0", "--lr", "{rate}"],
                params={"rate": ["0.05", "0.1", "0.2"]},
                working_dir=str(Path.cwd()),
            )
        )
        reached: dict[str, float] = {}
        for job_id in sweep.job_ids:
            job = client.wait(job_id, timeout_seconds=300)
            lines = b"".join(client.follow_log(job_id)).decode().splitlines()
            if job.state == "completed" and lines:
                reached[job.params["rate"]] = float(lines[-1].split()[-1])
            else:
                print(f"rate {job.params['rate']} {job.state}: {job.cause}")
    for rate, accuracy in sorted(reached.items(), key=lambda item: -item[1]):
        print(f"rate {rate}: accuracy {accuracy:.3f}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
